"""`tidings completion`: what a shell needs to complete commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from delivery.cli.options import Act

#: The variable by which a shell's script asks this program.
_ASKED_BY = "_TIDINGS_COMPLETE"


@click.command(cls=Act)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script by which a shell completes commands, options and what they take.

    Ids of endpoints and events, and types, are completed from the database that the command would use, where that
    answers at once. Switch it on by one line:

    \b
    bash, in ~/.bashrc:  eval "$(tidings completion bash)"
    zsh, in ~/.zshrc:    eval "$(tidings completion zsh)"
    fish, once:          tidings completion fish > ~/.config/fish/completions/tidings.fish
    """
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click has all three
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "tidings", _ASKED_BY).source())
