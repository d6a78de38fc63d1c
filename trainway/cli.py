"""The `trainway` command line: its commands, and the choice of the one that the first word names."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Sequence
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
app.add_typer(emulating.app, name="emulator")


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


app.command()(beginning.init)
app.command()(validating.check)
app.command()(validating.rules)
app.command()(validating.schema)
app.command()(listing.instances)
app.command()(planning.plan)
app.command()(buying.capacity)
app.command()(checking.preflight)
app.command()(checking.doctor)
app.command()(changing.lock)
app.command()(changing.upgrade)
app.command()(changing.diff)
app.command()(exporting.alarms)
app.command()(exporting.dashboard)
app.command()(adopting.adopt)
app.command()(exporting.manifests)
app.command(cls=LaunchCommand)(launching.launch)
app.command()(launching.tune)
app.command()(connecting.connect)
app.add_typer(connecting.runs_app, name="runs")
app.command()(watching.status)
app.command()(live.top)
app.command()(watching.logs)
app.command()(evaluating.evaluate)
app.command()(watching.stop)
app.command()(launching.resume)
app.command()(watching.shell)
app.command()(watching.forward)
app.command()(watching.copy)
app.command()(diagnosing.explain)
app.command()(diagnosing.verify)
app.command()(launching.sync)
app.add_typer(workspaces.app, name="workspace")
app.add_typer(images.app, name="image")
app.command()(reporting.report)
app.command()(emulating.demo)
app.command("app")(exporting.app_command)
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
