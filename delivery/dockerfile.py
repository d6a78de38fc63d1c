"""What a stage of a Dockerfile is made of: the stages that a build of it makes, their arguments, and their files.

It reads the part of the language that container/Dockerfile uses: no heredocs, no ONBUILD, and no wildcards in sources.
https://docs.docker.com/reference/dockerfile/ (read 2026-11-23)
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Made:
    """What a build of a stage uses: instructions in their order, arguments by name, and files of the build context."""

    instructions: tuple[str, ...]
    arguments: Mapping[str, str]
    files: tuple[str, ...]


def made(text: str, target: str, arguments: Mapping[str, str]) -> Made:
    """Return what a build of the stage `target` uses.

    Comments, blank lines, and the way that an instruction is broken into lines are left out, and so are stages that
    the build skips, and arguments that no stage of it declares. Raises KeyError if there is no such stage.
    """
    stages = _stages(text)
    wanted = _needed(stages, target, arguments)
    used = [instruction for name in stages if name in wanted for instruction in stages[name]]
    names = {words[1] for words in map(str.split, used) if words[0] == "ARG"}
    names |= {name for line in used if line.startswith("FROM ") for name in _VARIABLE.findall(line)}
    files = {_filled(file, arguments) for instruction in used for file in _files(instruction)}
    return Made(
        instructions=tuple(used),
        arguments={name: arguments[name] for name in sorted(names) if name in arguments},
        files=tuple(sorted(files)),
    )


def _stages(text: str) -> dict[str, list[str]]:
    """Return the instructions of each stage by its name, the FROM first."""
    stages: dict[str, list[str]] = {}
    name = ""
    for instruction in _instructions(text):
        if found := re.fullmatch(r"FROM (?:--\S+ )*\S+ AS (\S+)", instruction):
            name = found[1]
            stages[name] = []
        if name:
            stages[name].append(instruction)
    return stages


def _instructions(text: str) -> Iterator[str]:
    """Yield each instruction in one line, without comments."""
    lines = (line.strip() for line in text.splitlines())
    kept = "\n".join(line for line in lines if line and not line.startswith("#"))
    yield from re.sub(r"\s*\\\n\s*", " ", kept).splitlines()


def _needed(stages: Mapping[str, list[str]], target: str, arguments: Mapping[str, str]) -> set[str]:
    """Return the names of the stages that a build of the target makes."""
    needed: set[str] = set()
    waiting = [target]
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        needed.add(name)
        first, *rest = stages[name]
        sources = [re.findall(r"^FROM (?:--\S+ )*(\S+)", first)[0]]
        sources += [each for instruction in rest for each in _sources(instruction)]
        waiting += [each for each in (_filled(source, arguments) for source in sources) if each in stages]
    return needed


def _sources(instruction: str) -> list[str]:
    """Return the stages or images that an instruction takes files from."""
    if instruction.startswith("RUN "):
        return [found for each in _mounts(instruction) for found in re.findall(r"\bfrom=([^,]+)", each)]
    return re.findall(r"^COPY (?:.* )?--from=(\S+)", instruction)


def _mounts(instruction: str) -> list[str]:
    return re.findall(r"--mount=(\S+)", instruction)


def _files(instruction: str) -> list[str]:
    """Return the files and directories of the build context that an instruction uses."""
    word, _, rest = instruction.partition(" ")
    if word == "COPY":
        words = rest.split()
        return [each for each in words[:-1] if not each.startswith("--")] if not _sources(instruction) else []
    if word == "RUN":
        mounts = (each for each in _mounts(instruction) if "type=bind" in each and "from=" not in each)
        return [found for each in mounts for found in re.findall(r"\bsource=([^,]+)", each)]
    return []


def _filled(text: str, arguments: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: arguments.get(found[1], ""), text)
