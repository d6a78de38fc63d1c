"""Every command has an example, prints its data as JSON, and keeps to the width of the terminal."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.synthesis import ROOT
from trainway import start
from trainway.cli import app
from trainway.commands import changing, printing, progress, watching
from trainway.commands.examples import EXAMPLES
from trainway.commands.options import takes_options
from trainway.commands.printing import fitted, show
from trainway.parts.endings import ToldToEnd
from trainway.spec.errors import UsageError, usage_error

# Commands that print no data: a path, what they did, what another program reads, or what another program writes.
NO_DATA = {
    *("init", "lock", "manifests", "launch", "connect", "stop", "resume", "shell", "forward", "copy", "sync"),
    *("demo", "app", "emulator start", "emulator stop", "workspace start", "workspace connect", "workspace end"),
    *("image build", "image log", "image rebuild", "image watch", "image promote", "image restore", "image lock"),
    *("image additions", "evaluate"),
}
# Commands that print a document of one format, which another program reads.
DOCUMENT = {"schema", "image sbom", "alarms", "dashboard"}


def commands(group: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*above, name))
        else:
            yield " ".join((*above, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


def help_of(name: str) -> str:
    with redirect_stdout(io.StringIO()) as output:
        COMMANDS[name].main(["--help"], prog_name=f"trainway {name}", standalone_mode=False)
    return output.getvalue()


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


def test_the_example_of_a_command_is_in_its_help_and_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for name, example in EXAMPLES.items():
        assert f"Example: {example}" in help_of(name)
        words = shlex.split(re.sub(r'^eval "\$\((.*)\)"$', r"\1", example).partition(" > ")[0])
        path = ["trainway", *name.split()]
        assert words[: len(path)] == path
        # Parses the options and the arguments, and does not run the command.
        COMMANDS[name].make_context(name, words[len(path) :])


def test_a_command_that_prints_data_prints_it_as_json() -> None:
    for name, command in COMMANDS.items():
        parameters = command.get_params(typer.Context(command, info_name=name))
        has = any("--json" in parameter.opts for parameter in parameters)
        assert has != (name in NO_DATA | DOCUMENT), name


@dataclass(frozen=True)
class Price:
    currency: Annotated[str, typer.Option(metavar="CODE")] = "USD"
    most: Annotated[int | None, typer.Option(min=1)] = None


@dataclass(frozen=True, kw_only=True)
class Purchase:
    count: Annotated[int, typer.Option("--number")]
    price: Price = Price()
    is_sure: Annotated[bool, typer.Option("--yes")] = False


def purchase_app(made: list[Any]) -> typer.Typer:
    app = typer.Typer(add_completion=False)

    @app.command()
    @takes_options
    def buy(name: Annotated[str, typer.Argument()] = "p5", *, options: Purchase) -> None:
        """Buy nodes."""
        made.append((name, options))

    return app


def test_a_command_takes_its_options_as_a_dataclass() -> None:
    made: list[Any] = []
    app = purchase_app(made)
    for words in (["--number", "2"], ["g6", "--number", "3", "--currency", "EUR", "--most", "9", "--yes"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert made == [("p5", Purchase(count=2)), ("g6", Purchase(count=3, price=Price("EUR", 9), is_sure=True))]
    refused = CliRunner().invoke(app, ["--number", "2", "--most", "0"])
    assert refused.exit_code == 2 and "--most" in refused.output and len(made) == 2


def test_the_help_has_the_options_in_the_order_of_the_fields() -> None:
    command = typer.main.get_command(purchase_app([]))
    names = [name for each in command.params for name in each.opts]
    assert names == ["name", "--number", "--currency", "--most", "--yes"]
    assert inspect.getdoc(command.callback) == "Buy nodes."


@pytest.mark.parametrize("columns", [40, pytest.param(80, marks=pytest.mark.exhaustive)])
def test_help_keeps_to_the_width(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in COMMANDS:
        assert max(map(len, help_of(name).splitlines())) <= columns, name


def is_as_narrow_as_its_words(line: str, columns: int) -> bool:
    """Return whether a line fits, or has a word or a command that fills more than half of the width."""
    words = re.findall(r"`[^`]*`\S*|\S+", line)
    return len(line) <= columns or max(map(len, words)) > columns // 2


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("name", ["rules", "instances", "plan"])
def test_text_keeps_to_the_width(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "terminal_width", lambda _: columns)
    monkeypatch.chdir(ROOT)
    output = CliRunner().invoke(app, [name], catch_exceptions=False).output
    assert len(output) > columns
    for line in output.splitlines():
        assert is_as_narrow_as_its_words(line, columns), line


@given(st.text("ab `\n  ", max_size=300), st.integers(20, 90))
def test_breaking_lines_loses_no_word(text: str, columns: int) -> None:
    assert fitted(text, columns).split() == text.split()


def test_a_command_in_a_sentence_is_not_broken() -> None:
    sentence = "    fix: `trainway status --all` lists the runs; `trainway connect` adds a platform"
    assert "`trainway status --all`" in fitted(sentence, 40)


def test_a_terminal_has_the_width_that_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    stream = Terminal()
    show("word " * 20, to=stream)
    assert max(map(len, stream.getvalue().splitlines())) <= 44


def test_what_goes_into_a_pipe_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    stream = io.StringIO()
    show("word " * 100, to=stream)
    assert stream.getvalue() == "word " * 100 + "\n"


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["instances", "--json"], {"name", "efa_interfaces", "network_gbps"}),
        pytest.param(
            ["tune", str(ROOT / "examples/jobs/llama-8b.yaml"), "--instance-type=p5.48xlarge", "--json"],
            {"layouts"},
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_json_has_the_data(arguments: list[str], keys: set[str]) -> None:
    document = json.loads(CliRunner().invoke(app, arguments, catch_exceptions=False).output)
    assert keys <= set(document[0] if isinstance(document, list) else document)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


WAITS: dict[str, tuple[list[str], str, str]] = {
    "sync": (["sync", "."], "trainway.launch.platform.hand_off.read_hand_off", "uploading the code of ."),
    "image status": (["image", "status"], "trainway.commands.images._account", "reading the images from AWS"),
    "image sbom": (["image", "sbom"], "trainway.commands.images._deployed", "reading the images from AWS"),
    "image provenance": (["image", "provenance"], "trainway.commands.images._deployed", "reading the images from AWS"),
    "image lock": (["image", "lock"], "trainway.delivery.package_lock.lock_packages", "resolving the packages"),
    "workspace status": (["workspace", "status"], "trainway.commands.workspaces._handle", "asking the cluster"),
    "workspace connect": (["workspace", "connect"], "trainway.commands.workspaces._handle", "asking the cluster"),
    "workspace end": (["workspace", "end"], "trainway.commands.workspaces._handle", "ending the workspace"),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_command_says_on_a_terminal_what_it_waits_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command waits for here is a function that answers when the line has appeared."""
    words, waited_for, line = WAITS[name]
    terminal = Terminal()

    def answer(*arguments: Any, **options: Any) -> NoReturn:
        del arguments, options
        for _ in range(30000):
            if line in terminal.getvalue():
                break
            time.sleep(0.01)
        assert line in terminal.getvalue()
        raise usage_error("it is over", why="the test ends it", fix="nothing")

    monkeypatch.setattr(waited_for, answer)
    monkeypatch.setattr(progress, "SECONDS_BEFORE", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.chdir(ROOT)
    with pytest.raises(UsageError, match="it is over"):
        app(words, standalone_mode=False)


def test_a_long_wait_is_told_on_a_terminal_and_the_line_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.working("reading vpc-1", before=0.01):
        while "reading vpc-1 … 0 s" not in terminal.getvalue():
            time.sleep(0.01)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_short_wait_and_a_wait_without_a_terminal_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.working("reading vpc-1", before=60 if stream.isatty() else 0):
            pass
        assert stream.getvalue() == ""


def test_ctrl_c_while_the_commands_are_built_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("trainway.cli.main", interrupted)
    try:
        with pytest.raises(SystemExit) as ended:
            start.main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == start.INTERRUPTED


def test_a_shell_completes_commands_and_options() -> None:
    environment = {**os.environ, "_TRAINWAY_COMPLETE": "complete_bash", "COMP_WORDS": "trainway em", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'trainway'; from trainway.start import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.stdout.split() == ["emulator"], done.stderr


@pytest.mark.parametrize(
    ("variables", "is_terminal", "expected"),
    [
        ({"DISPLAY": ":0"}, True, True),
        ({"DISPLAY": ":0"}, False, False),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, True, False),
        ({}, True, False),
    ],
)
def test_a_page_is_opened_where_there_is_a_screen(
    variables: dict[str, str], is_terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "stdout", Terminal() if is_terminal else io.StringIO())
    assert watching.has_screen() is expected


def test_the_page_of_exit_statuses_has_those_of_the_code() -> None:
    page = Path(ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    told = {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    raised = {0, 2, start.INTERRUPTED, changing.REFUSED, ToldToEnd(signal.SIGTERM).exit_status}
    for file in sorted((ROOT / "trainway").rglob("*.py")):
        raised |= {int(found) for found in re.findall(r"typer\.Exit\((\d+)\)", file.read_text(encoding="utf-8"))}
    assert raised <= told, raised - told
