"""The flags that describe a command without a job file. Each has the meaning and the rules of a key of job files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from trainway.launch.job_file.run_file import looks_like_secret
from trainway.spec.errors import UsageError, usage_error

KEYS: Final[Mapping[str, str]] = {
    "--nodes": "nodes",
    "--team": "team",
    "--env": "run.environment",
    "--packages": "run.packages",
}
"""The key of a job file that each flag stands for."""
_SUFFIXES_OF_LISTS: Final = (".txt", ".in")


@dataclass(frozen=True)
class CommandFlags:
    """The values of the flags: `environment` has words NAME=VALUE or NAME, and `packages` packages or one file."""

    nodes: int | None = None
    team: str | None = None
    environment: Sequence[str] = ()
    packages: Sequence[str] = ()

    @property
    def first(self) -> str | None:
        """Return the first flag that has a value, or None."""
        values = (self.nodes, self.team, self.environment or None, self.packages or None)
        return next((flag for flag, value in zip(KEYS, values, strict=True) if value is not None), None)

    def in_run(self, caller: Mapping[str, str]) -> dict[str, Any]:
        """Return the keys of a section `run` that the flags stand for. `caller` has the variables of this process.

        Raises UsageError for words that are no value of the keys.
        """
        keys: dict[str, Any] = {}
        if self.environment:
            keys["environment"] = _environment(self.environment, caller)
        if self.packages:
            keys["packages"] = _packages(self.packages)
        return keys


NO_FLAGS: Final = CommandFlags()


def refusal(what: str, error: ValidationError) -> UsageError:
    """Return the error for flags that no job file can have. The message has no value of a variable."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
    flag = next((flag for flag, of in KEYS.items() if key == of or key.startswith(f"{of}.")), None)
    fix = first.get("ctx", {}).get("remedy", "write a job file: docs/your-program.md")
    if flag == "--packages":
        flag = f"--packages {first['input']}"
    elif flag == "--env" and first["type"] == "secret":
        fix = f"write a job file: docs/your-program.md. In its section `run`, {fix}"
    return usage_error(f"{what}{f' with {flag}' if flag else ''}", why=first["msg"], fix=fix)


def _environment(words: Sequence[str], caller: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, equals, value in (word.partition("=") for word in words):
        if name in found:
            raise usage_error(f"--env {name} is given twice", why="a variable has one value", fix="leave one out")
        # A name that looks like a secret is refused with the other names, whether the caller has it or not.
        if not equals and name not in caller and not looks_like_secret(name):
            why = "NAME without a value is a variable of the shell that launches, and it has none of this name"
            raise usage_error(f"--env {name} has no value", why=why, fix=f"export {name}, or write --env {name}=VALUE")
        found[name] = value if equals else caller.get(name, "")
    return found


def _packages(words: Sequence[str]) -> str | list[str]:
    """Return the packages as a job file has them: a list, or the path of a file with requirements."""
    files = [word for word in words if _is_file(word)]
    if not files:
        return list(words)
    if len(words) > 1:
        why = "a launch takes one file with requirements, or packages by their names"
        fix = f"write the packages into {files[0]}, or name packages only"
        raise usage_error(f"--packages {' --packages '.join(words)} cannot be used", why=why, fix=fix)
    return files[0]


def _is_file(word: str) -> bool:
    """Return whether a word is a path, there or not. An address is neither a path nor a package of the index."""
    return "://" not in word and ("/" in word or word.endswith(_SUFFIXES_OF_LISTS) or Path(word).is_file())
