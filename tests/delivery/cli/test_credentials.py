"""`tidings endpoints`: what an endpoint lets deliveries in with, and how it wants them written."""

from __future__ import annotations

from tests.delivery.adapters.http.authority import Authority

from .conftest import Cli, lines

URL = "https://example.com/hook"


def test_an_endpoint_is_given_credentials_and_a_format_and_neither_is_shown(cli: Cli, tmp_path):
    authority = Authority(tmp_path)
    (tmp_path / "ca.pem").write_text(authority.pem)
    certificate = authority.issue("sender.example.com")
    files = ("--client-certificate", str(certificate), "--ca", str(tmp_path / "ca.pem"))
    added = cli.json("endpoints", "add", URL, "--basic", "ann:s3cret", "--format", "cloudevents", *files)
    assert (added["headers"], added["tls"]) == (["authorization"], ["certificate", "authorities"])
    assert added["format"] == "cloudevents"
    shown = cli("endpoints", "show", added["id"])
    assert (lines(shown)["tls"], lines(shown)["format"]) == ("certificate, authorities", "cloudevents")
    assert "s3cret" not in shown
    assert "BEGIN" not in shown
    changed = cli.json("endpoints", "update", added["id"], "--bearer", "t0ken", "--no-tls", "--format", "raw")
    assert (changed["headers"], changed["tls"], changed["format"]) == (["authorization"], [], "raw")


def test_a_change_shows_what_is_left_of_them(cli: Cli, tmp_path):
    (tmp_path / "ca.pem").write_text(Authority(tmp_path).pem)
    added = cli.json("endpoints", "add", URL, "--bearer", "t0ken", "--ca", str(tmp_path / "ca.pem"))
    told = lines(cli("endpoints", "update", added["id"], "--header", "X-Team: a"))
    assert (told["headers"], told["tls"]) == ("X-Team", "authorities")
