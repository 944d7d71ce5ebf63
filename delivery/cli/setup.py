"""`tidings endpoints export` and `import`: the set-up as a file in version control."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from delivery.cli import documents
from delivery.cli.consent import Consent, destructive
from delivery.cli.endpoint_lines import described_policy
from delivery.cli.failures import Failed
from delivery.cli.options import Act, any_owner, owned, printed, signed
from delivery.cli.output import Form, counted, shown, write_fields, write_json, write_line
from delivery.cli.session import Session
from delivery.cli.signing_keys import REVEALED, revealed_field
from subscriptions.model import Endpoint, EndpointTarget, EventType, RetryPolicy, Subscription

if TYPE_CHECKING:
    from delivery.api.importing import Goer, SetupChange
    from delivery.api.setup import Imported
    from delivery.app import App
    from delivery.cli.setup_file import FileForm
    from subscriptions.setup import Setup

Command = Callable[..., None]
Thing = EventType | RetryPolicy | Endpoint | Subscription

#: Bytes that are read of a file: tens of thousands of endpoints.
_MOST_READ = 16 * 1024 * 1024
_SIGNS = {"add": "+", "change": "~", "remove": "-"}
#: They are nobody's wish; a subscription that changes gets another id.
_NOT_WANTED = {"id", "created_at", "updated_at"}
#: Of what would go, so many are named in the question.
_NAMED = 5

_FORMAT = click.option(
    "--format", type=click.Choice(["yaml", "json"]), help="How the file is written, where its name does not say."
)


@click.command("export", cls=Act)
@owned
@any_owner
@click.argument("file", type=click.Path(path_type=Path), required=False, metavar="[FILE]")
@_FORMAT
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def export_setup(session: Session, owner_id: str | None, file: Path | None, format: str | None, as_json: bool) -> None:
    """Write the set-up down, for version control.

    Event types, policies, and endpoints with their subscriptions; to FILE, or to standard output as YAML. No secrets
    are in it: of headers and certificates the names, marked as secret. Not in it is what happens to an endpoint, such
    as that it is disabled, and handlers, which are in code.
    """
    if as_json and format == "yaml":
        raise click.UsageError("--json and --format yaml contradict each other")
    from delivery.cli.setup_file import FileForm, write_setup

    form = _form(file, "json" if as_json else format, unless=FileForm.YAML)
    text = write_setup(session.run(lambda app: app.setup.export(owner_id)), form)
    if file is None or str(file) == "-":
        click.echo(text, nl=False)
    else:
        _write_file(file, text)
        back = ["tidings", "endpoints", "import", str(file)]
        back += ["--any-owner"] if owner_id is None else []
        back += ["--format", form.value] if FileForm.of(file.name) is not form else []
        write_line(shown(f"written to {file}: `{shlex.join(back)}` brings what stands to what it says"))


@click.command("import", cls=Act)
@owned
@any_owner
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@_FORMAT
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--prune", is_flag=True, help="Remove what the file does not name, for good; asks first.")
@destructive
@signed
@printed
def import_setup(
    session: Session,
    owner_id: str | None,
    file: Path,
    format: str | None,
    dry_run: bool,
    prune: bool,
    consent: Consent,
    by: str,
    form: Form,
) -> None:
    """Bring what stands to what FILE says, all of it or nothing.

    An endpoint is the one of its id; without an id, the owner's one endpoint of that URL, or a new one. A field that
    is not there stays as it is, and so does a header that is marked as secret. What the file does not name stays,
    unless --prune. Run again, it changes nothing. FILE may be - for standard input.
    """
    if prune and not dry_run:
        consent.require()
    setup = _read(file, format, owner_id)

    def run(*, trial: bool, agreed: Collection[Goer] | None = None) -> Imported:
        async def work(app: App) -> Imported:
            return await app.setup.apply(setup, by=by, prune=prune, agreed=agreed, dry_run=trial)

        return session.run(work)

    agreed = None
    if prune and not dry_run and not consent.is_given:
        trial = run(trial=True)
        if trial.removed or trial.lost_headers:
            consent.ask(_removing(trial))
        agreed = trial.goers
    done = run(trial=dry_run, agreed=agreed)
    if form is Form.JSON:
        write_json(_document(done, dry_run=dry_run))
    else:
        _write(done, dry_run=dry_run)


# Files ----------------------------------------------------------------------------------------------------------------


def _form(file: Path | None, given: str | None, *, unless: FileForm | None) -> FileForm:
    from delivery.cli.setup_file import FileForm

    if given:
        return FileForm(given)
    form = unless if file is None or str(file) == "-" else FileForm.of(file.name)
    if form is None:
        what = "standard input" if str(file) == "-" else str(file)
        raise click.UsageError(f"{what} does not say whether it is YAML or JSON: give --format")
    return form


def _read(file: Path, format: str | None, owner_id: str | None) -> Setup:
    from delivery.cli.setup_file import read_setup

    form = _form(file, format, unless=None)
    try:
        if str(file) == "-":
            raw = sys.stdin.buffer.read(_MOST_READ + 1)
        else:
            with file.open("rb") as opened:
                raw = opened.read(_MOST_READ + 1)
    except OSError as error:
        raise click.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="FILE") from None
    if len(raw) > _MOST_READ:
        raise click.BadParameter(f"it is over {_MOST_READ} bytes: part it by owners", param_hint="FILE")
    setup = read_setup(raw, form)
    others = [owner.owner_id for owner in setup.owners if owner_id not in (None, owner.owner_id)]
    if others:
        raise Failed(
            f"{file} speaks of owner {others[0]!r}, and this is for {owner_id!r} alone: give --owner, or --any-owner"
        )
    return setup


def _write_file(file: Path, text: str) -> None:
    """Write the whole file or none of it, where a link leads, with the mode it has; a pipe or device is written to."""
    target = file.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
            return
        beside.write_text(text, encoding="utf-8")
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o777)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise click.BadParameter(f"{file} cannot be written: {error.strerror}", param_hint="FILE") from None


# What is shown --------------------------------------------------------------------------------------------------------


def _removing(trial: Imported) -> str:
    names = [_name(each) for each in trial.removed]
    names += [f"header {name} of endpoint {endpoint.id}" for endpoint, name in trial.lost_headers]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"Remove for good what the file does not name: {'; '.join(names[:_NAMED])}{more}?"


def _write(done: Imported, *, dry_run: bool) -> None:
    for change in done.changes:
        line = f"{_SIGNS[_action(change)]} {_name(change.thing)}{_details(change)}"
        for endpoint in done.added if dry_run else ():  # it is none until it is done
            line = line.replace(f"endpoint {endpoint.id} ({endpoint.url})", f"endpoint {endpoint.url}")
            line = line.replace(f"endpoint {endpoint.id}", f"endpoint {endpoint.url}")
        write_line(shown(line))
    if not done.changes:
        write_line("nothing to change: it stands like this")
    elif dry_run:
        write_line("\nnothing was changed: it was a trial")
    if done.unnamed:
        number = counted(done.unnamed, "thing")
        write_line(f"\n{number} (endpoints, subscriptions) the file does not name, and --prune would remove")
    for endpoint, key in done.keys:
        write_line()
        write_fields([("endpoint", endpoint.id), ("url", endpoint.url), revealed_field(key)])
    for scheme in dict.fromkeys(key.scheme for _, key in done.keys):
        write_line(f"\n{REVEALED[scheme]}: the receiver verifies with it.")


def _document(done: Imported, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "changes": [_change(each) for each in done.changes],
        "unnamed": done.unnamed,
        "keys": [{"endpoint_id": str(endpoint.id)} | documents.revealed(key) for endpoint, key in done.keys],
    }


def _change(change: SetupChange) -> dict[str, Any]:
    before, after = (None if each is None else _described(each) for each in (change.before, change.after))
    if before is not None and after is not None:
        differing = [name for name, value in before.items() if value != after[name]]
        before, after = ({name: each[name] for name in differing} for each in (before, after))
    identity, owner_id = _identity(change.thing)
    return {
        "action": _action(change),
        "what": _what(change.thing),
        "id": identity,
        "owner_id": owner_id,
        "before": before,
        "after": after,
        "headers": list(change.headers),
    }


def _identity(thing: Thing) -> tuple[str, str | None]:
    match thing:
        case EventType():
            return thing.type, None
        case RetryPolicy():
            return thing.name, None
        case _:
            return str(thing.id), thing.owner_id


def _action(change: SetupChange) -> str:
    if change.before is None:
        return "add"
    return "remove" if change.after is None else "change"


def _what(thing: Thing) -> str:
    match thing:
        case EventType():
            return "event_type"
        case RetryPolicy():
            return "policy"
        case Endpoint():
            return "endpoint"
        case Subscription():
            return "subscription"


def _name(thing: Thing) -> str:
    match thing:
        case EventType():
            return f"event type {thing.type}"
        case RetryPolicy():
            return f"policy {thing.name}"
        case Endpoint():
            return f"endpoint {thing.id} ({thing.url})"
        case Subscription():
            return f"subscription {thing.name}"


def _details(change: SetupChange) -> str:
    """Say what of it changes; of what is new or goes, what tells it from others."""
    document = _change(change)
    before, after = document["before"], document["after"]
    if before is None or after is None:
        thing = change.thing
        if isinstance(thing, EventType):
            return f": {thing.exposure.value}"
        if isinstance(thing, RetryPolicy):
            return f": {described_policy(thing)}"
        target = thing.target if isinstance(thing, Subscription) else None
        if isinstance(thing, Subscription) and isinstance(target, EndpointTarget):
            where = "" if thing.filter is None else f" where {thing.filter}"
            return f": {', '.join(thing.patterns)}{where} to endpoint {target.endpoint_id}"
        return ""
    parts = [f"{name} {_short(before[name])} -> {_short(after[name])}" for name in before if name != "headers"]
    parts += [f"header {name}" for name in change.headers]
    return f": {', '.join(parts)}"


def _described(thing: Thing) -> dict[str, Any]:
    if isinstance(thing, EventType):
        return documents.event_type(thing)
    if isinstance(thing, RetryPolicy):
        return documents.policy(thing)
    document = documents.endpoint(thing) if isinstance(thing, Endpoint) else documents.subscription(thing)
    return {name: value for name, value in document.items() if name not in _NOT_WANTED}


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}={each}" for name, each in value.items()) or "none"
    return "none" if value is None else repr(value) if value == "" else str(value)
