"""A page that a reader follows: files to create, files to change, and commands with what they print.

A recipe of docs/recipes is one change, in any order. A journey is followed from its first block to its last one.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.known_day import on_known_day
from tests.synthesis import ROOT

RECIPES = ROOT / "docs" / "recipes"
EDIT = re.compile(r"^(Create|Change) `([^`]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A comment with the exit status of the commands in the next block. The default is 0. The comment is not displayed.
STEP = re.compile(rf"(?:^<!-- ends with (\d+) -->\n\n)?{CONSOLE.pattern}|{EDIT.pattern}", re.MULTILINE | re.DOTALL)
ANSWERED = re.compile(r"\[y/N(?:/s)?\] (\w)$")
# Runs a command with the text for its standard input. Returns the exit status and the output.
Shell = Callable[[str, str], tuple[int, str]]


def page(name: str) -> str:
    """Return the text of the recipe `docs/recipes/NAME.md`."""
    return (RECIPES / f"{name}.md").read_text(encoding="utf-8")


def blocks(text: str, verb: str) -> dict[str, str]:
    """Return the code blocks of a page by their path; `verb` is "Create" for whole files and "Change" for diffs."""
    return {path: block for said, path, block in EDIT.findall(text) if said == verb}


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a page's console blocks with the lines that it promises to print.

    A backslash at the end of a line continues the command in the next one.
    """
    for block in CONSOLE.findall(text):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, *promised = part.replace("\\\n", "\\\0").splitlines()
            yield command.replace("\0", "\n"), promised


def check_printed(command: str, promised: list[str], said: str) -> None:
    """Check that a command printed the promised lines, in their order. An ellipsis in a line stands for anything.

    A question is printed on a terminal only.
    """
    where = 0
    for line in (line for line in promised if not ANSWERED.search(line)):
        for part in line.split("…"):
            found = said.find(part.strip(), where)
            assert found >= 0, f"{part.strip()!r} of {line!r} is not what `{command}` prints:\n{said}"
            where = found + len(part.strip())


def follow(text: str, directory: Path, shell: Shell) -> list[str]:
    """Follow a page from its first block to its last block, and return the commands.

    Files are below the directory. A line that ends with `[y/N] y` promises that the command asks, and answers it.
    """
    done = list[str]()
    for status, block, verb, path, content in STEP.findall(text):
        if verb:
            edit(verb, path, content, directory)
            continue
        for command, promised in commands(f"```console\n{block}```"):
            answers = "".join(f"{found[1]}\n" for line in promised if (found := ANSWERED.search(line)))
            ended, said = shell(on_known_day(command), answers)
            assert ended == int(status or 0), f"`{command}` ends with {ended}:\n{said}"
            check_printed(command, promised, said)
            done.append(command)
    return done


# The first argument is a file with the variables and the working directory after the earlier commands.
_SESSION = """
set -o pipefail
if [[ -s $0 ]]; then . "$0"; fi
trap '{ export -p; printf "cd %q\\n" "$PWD"; } >"$0"' EXIT
eval "$1"
"""


def session(directory: Path, environment: Mapping[str, str], state: Path) -> Shell:
    """Return a shell with a directory and an environment that persist from one command to the next.

    `state` is a file that does not exist yet.
    """

    def run(command: str, answers: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", _SESSION, str(state), command],
            cwd=directory,
            env=environment,
            input=answers,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


def environment_of_reader(home: Path, path: str) -> dict[str, str]:
    """Return the environment of a reader with an empty home directory and this PATH."""
    home.mkdir()
    kept = {name: os.environ[name] for name in ("CI", "LANG", "NODE_COMPILE_CACHE", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "PATH": path, "CDK_VALIDATION": "false", "COLUMNS": "200"}


def added(diff: str) -> str:
    """Return the lines that a diff adds."""
    return "".join(line[1:] + "\n" for line in diff.splitlines() if line.startswith("+"))


def apply_diff(diff: str, text: str, name: str) -> str:
    """Return a file's text with the unchanged and removed lines of a diff replaced by its unchanged and added ones.

    A line `@@` separates changes of a file. The lines of each occur once in the file, whose name is for the message
    otherwise. An ellipsis in a removed line stands for anything.
    """
    if "\n@@\n" in diff:
        first, rest = diff.split("\n@@\n", maxsplit=1)
        return apply_diff(rest, apply_diff(f"{first}\n", text, name), name)
    lines = diff.splitlines()
    old = "".join(f"\n{line[1:]}" for line in lines if not line.startswith("+")) + "\n"
    new = "".join(f"\n{line[1:]}" for line in lines if not line.startswith("-")) + "\n"
    whole = f"\n{text}"
    found = re.findall(re.escape(old).replace("…", "[^\n]*"), whole)
    assert len(found) == 1, f"{name} has {len(found)} times what the recipe changes:{old}"
    assert "…" not in new, f"{name}: the ellipsis is not in a line that the recipe removes:{old}"
    return whole.replace(found[0], new)[1:]


def apply(text: str, checkout: Path) -> None:
    """Do what a page says to the files of a checkout."""
    for verb in ("Change", "Create"):
        for path, content in blocks(text, verb).items():
            edit(verb, path, content, checkout)


def edit(verb: str, path: str, content: str, directory: Path) -> None:
    """Change or create a file below a directory as a block of a page says."""
    file = directory / path
    if verb == "Change":
        content = apply_diff(content, file.read_text(encoding="utf-8"), path)
    else:
        assert not file.exists(), f"{path} is there already"
        file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
