"""Docs: every link leads somewhere, every `make` target that is named exists."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from .source import Source, check, paths, read, refused

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`\n]*`")
COMMAND = re.compile(r"(?:`|^\s*\$?\s*)make ([a-z]+)", re.MULTILINE)


def pages() -> list[Source]:
    return [read(path) for path in paths() if path.endswith(".md")]


def anchors(page: Source) -> set[str]:
    """List the anchors that a page has: GitHub's for its headings, and those set by hand."""
    found: set[str] = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", page.text))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", page.text), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        number = next(n for n in range(1000) if (f"{slug}-{n}" if n else slug) not in found)
        found.add(f"{slug}-{number}" if number else slug)
    return found


def lead_somewhere(page: Source) -> Iterator[str]:
    """Refuse a relative link whose file or heading is not there."""
    files = set(paths())
    places = files | {posixpath.dirname(path) for path in files}
    for match in LINK.finditer(SPAN.sub("", FENCE.sub("", page.text))):
        link = match[1] or match[2]
        if ELSEWHERE.match(link):
            continue
        target, _, anchor = link.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.path), target)) if target else page.path
        if target and path not in places:
            yield f"{page.path}: the link {link} leads to no file of the tree"
        elif anchor and path.endswith(".md") and anchor not in anchors(page if path == page.path else read(path)):
            yield f"{page.path}: the link {link} leads to no heading of {path}"


def name_real_targets(page: Source) -> Iterator[str]:
    """Refuse `make something` where the Makefile has no such target."""
    targets = set(re.findall(r"^([a-z]+):.*## ", read("Makefile").text, re.MULTILINE))
    for name in COMMAND.findall(page.text):
        if name not in targets:
            yield f"{page.path}: the Makefile has no target `{name}`"


def test_every_link_leads_somewhere():
    check(lead_somewhere, pages())


def test_every_make_target_exists():
    check(name_real_targets, [page for page in pages() if page.path != "CHANGELOG.md"])


def test_a_dead_link_is_refused():
    for link in (
        "[a](gone.md)",
        "![a](docs/gone.png)",
        "[a](#gone)",
        "[a](../CONTRIBUTING.md#gone)",
        "[a]: gone.md",
    ):
        assert refused(lead_somewhere, "docs/x.md", f"# Here\n\n{link}\n"), link


def test_a_live_link_is_accepted():
    for link in (
        "[a](#here-we-are)",
        "[a](../Makefile)",
        "[a](https://example.com/gone)",
        "`[a](gone.md)`",
        "[a](../delivery/)",
    ):
        assert not refused(lead_somewhere, "docs/x.md", f"# Here: we `are`\n\n{link}\n"), link


def test_a_target_that_is_gone_is_refused():
    assert refused(name_real_targets, "docs/x.md", "```sh\nmake gone\n```")
    assert not refused(name_real_targets, "docs/x.md", "`make test`, and they make sense")
