"""The `trainway` command line: its commands, and the choice of the one that the first word names."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from typer.main import get_command_name
from typer.models import CommandInfo

from trainway.commands import (
    adopting,
    beginning,
    buying,
    changing,
    checking,
    connecting,
    diagnosing,
    emulating,
    evaluating,
    exporting,
    image_doctoring,
    images,
    launching,
    listing,
    live,
    planning,
    reporting,
    validating,
    watching,
    workspaces,
)
from trainway.commands.examples import add_examples
from trainway.commands.printing import show
from trainway.commands.target_flags import LaunchCommand
from trainway.parts.endings import ToldToEnd, end_on_signals, takes_no_more
from trainway.spec.errors import UsageError
from trainway.spec.shown import shown_lines

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from trainway import __version__

        print(f"trainway {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """A distributed-training platform on AWS from one file, and the job that runs on it."""


FILES = "Write and check the files"
DEPLOY = "Deploy a platform, and change it"
LAUNCH = "Launch jobs"
FOLLOW = "Follow and manage runs"
MEND = "Find out what is wrong"
TRY = "Try it without AWS"
EXTENSIONS = "Extensions, which docs/scope.md describes"

_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    FILES: (
        *(beginning.init, validating.check, planning.plan, listing.instances, validating.rules, validating.schema),
        adopting.adopt,
    ),
    DEPLOY: (
        *(checking.preflight, changing.diff, changing.lock, changing.upgrade),
        *(exporting.manifests, exporting.alarms, exporting.dashboard),
    ),
    LAUNCH: (
        *(launching.launch, launching.resume, launching.tune, launching.sync),
        *(connecting.connect, evaluating.evaluate),
    ),
    FOLLOW: (
        *(watching.status, live.top, watching.logs, reporting.report),
        *(watching.stop, watching.shell, watching.forward, watching.copy),
    ),
    MEND: (diagnosing.explain, checking.doctor, diagnosing.verify),
    TRY: (emulating.demo,),
    EXTENSIONS: (buying.capacity,),
}
for _heading, _commands in _COMMANDS.items():
    for _command in _commands:
        _own = LaunchCommand if _command is launching.launch else None
        app.command(cls=_own, rich_help_panel=_heading)(_command)
app.command("app", rich_help_panel=DEPLOY)(exporting.app_command)
images.app.command()(image_doctoring.doctor)
app.add_typer(images.app, name="image", rich_help_panel=DEPLOY)
app.add_typer(connecting.runs_app, name="runs", rich_help_panel=FOLLOW)
app.add_typer(emulating.app, name="emulator", rich_help_panel=TRY)
app.add_typer(workspaces.app, name="workspace", rich_help_panel=EXTENSIONS)
add_examples(app)


def narrowed(words: Sequence[str]) -> typer.Typer:
    """Return the command line with only the command that the first word names, or all of it if the word names none.

    Typer inspects every command that it is given, which takes longer than most commands need to start.
    """
    first = words[0] if words else ""
    commands = [each for each in app.registered_commands if _name_of(each) == first]
    groups = [each for each in app.registered_groups if each.name == first]
    if not commands and not groups:
        return app
    one = copy.copy(app)
    one.registered_commands, one.registered_groups = commands, groups
    return one


def _name_of(command: CommandInfo) -> str:
    """Return the word that calls a command."""
    return command.name or get_command_name(command.callback.__name__ if command.callback else "")


def main() -> None:
    """Run the command line. A UsageError is printed without a traceback, and the exit status is 2.

    So is the error of a full or read-only disk. A signal that ends the command lets it clean up.
    """
    end_on_signals()
    try:
        try:
            narrowed(sys.argv[1:])()
        finally:
            sys.stdout.flush()
    except ToldToEnd as told:
        sys.exit(told.exit_status)
    except UsageError as error:
        show(shown_lines(str(error)), to=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if (sentence := takes_no_more(error)) is None:
            raise
        # Python would try again to write the output, and print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(sentence, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
