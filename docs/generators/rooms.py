"""`python -m docs.generators.rooms` redraws the pictures of docs/design.md: the folders, and which imports which.

`python -m docs.generators.rooms launch JOB …` prints the modules that such a command line enters, as a debugger does.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from types import CodeType, FrameType
from typing import Any

from docs.generators import ROOT

PAGE = ROOT / "docs" / "design.md"
BETWEEN = re.compile(r"(?<=<!-- rooms -->\n).*(?=<!-- /rooms -->)", re.DOTALL)
# The modules at the top of each package, shown as one box.
TOPS = {
    "delivery": "delivery",
    "emulator": "emulator",
    "stacks": "stacks",
    "trainway": "trainway (commands)",
    "training": "training (commands)",
}
# Modules at the top of a package that import nothing of it, each a box of its own. That of `trainway` has its version.
LEAVES = ("emulator.errors", "trainway", "training.errors")

# What a person follows from the command line to a target. A debugger steps over what these modules compute with: the
# specification, the manifests, and the prices.
_FOLLOWED = ("trainway.cli", "trainway.commands", "trainway.launch", "trainway.parts")
# The job file's model is entered as well, and what it calls itself is stepped over.
_ENTERED = (*_FOLLOWED, "training.config")
_FOLDERS = (f"{ROOT}/trainway/", f"{ROOT}/training/config/")

Arrow = tuple[str, str]


# Boxes of the picture of all packages that are no whole package: what is before the rest of it, and what is below.
IN_THE_OVERVIEW = ("trainway (commands)", "training.config")


def draw() -> str:
    """Return Mermaid flowcharts: one of the packages, and one of the folders of each package.

    A box is a folder, and an arrow leads from a folder to one that it imports directly. An arrow that follows from
    others is left out, so that every path in a picture is a path of imports.
    """
    return "\n".join(
        [
            *("The packages:", "", chart(overview())),
            *(
                f"The folders of `{each}`:\n\n{chart(arrows_within(each))}"
                for each in TOPS
                if len(arrows_within(each)) > 1
            ),
        ]
    )


def chart(arrows: set[Arrow]) -> str:
    """Return a Mermaid flowchart of arrows, without those that follow from others."""
    shown = sorted(each for each in arrows if not _follows(each, arrows))
    names = sorted({room for arrow in arrows for room in arrow})
    boxes = [f'  {_identifier(name)}["{name}"]' for name in names]
    lines = [f"  {_identifier(source)} --> {_identifier(target)}" for source, target in shown]
    return "\n".join(["```mermaid", "flowchart TD", *boxes, *lines, "```", ""])


def overview() -> set[Arrow]:
    """Return every pair of packages of which the first imports the second."""
    pairs = {(_package(source), _package(target)) for source, target in arrows_between_rooms()}
    return {(source, target) for source, target in pairs if source != target}


def arrows_within(package: str) -> set[Arrow]:
    """Return every pair of folders of a package of which the first imports the second."""
    return {each for each in arrows_between_rooms() if {room.split(".")[0].split(" ")[0] for room in each} == {package}}


def _package(room: str) -> str:
    return room if room in IN_THE_OVERVIEW else room.split(".")[0].split(" ")[0]


@cache
def arrows_between_rooms() -> frozenset[Arrow]:
    """Return every pair of folders of which the first imports the second."""
    import grimp

    graph = grimp.build_graph(*TOPS)
    found = set[Arrow]()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            source, target = room_of(module, graph.modules), room_of(imported, graph.modules)
            if source != target:
                found.add((source, target))
    return frozenset(found)


def room_of(module: str, modules: Iterable[str]) -> str:
    """Return the folder of a module: `training.data` for `training.data.shards`, for example."""
    package, *rest = module.split(".")
    folder = ".".join([package, *rest[:1]])
    if rest and any(other.startswith(f"{folder}.") for other in modules) and folder != "trainway.commands":
        return folder
    # What is in no folder: stacks, commands, and the exceptions that every module of the job or the emulator may raise.
    return folder if folder in LEAVES else TOPS[package]


def on_a_cycle(arrows: Collection[Arrow]) -> set[str]:
    """Return the folders from which a path of imports leads back to themselves."""
    return {room for room in dict(arrows) if room in _reached_from(room, arrows)}


def _follows(arrow: Arrow, arrows: set[Arrow]) -> bool:
    """Tell whether other arrows lead the same way. Arrows between two folders that import each other never follow."""
    source, target = arrow
    if (target, source) in arrows:
        return False
    return target in _reached_from(source, arrows - {arrow})


def _reached_from(source: str, arrows: Collection[Arrow]) -> set[str]:
    reached, new = set[str](), {source}
    while new:
        new = {end for start, end in arrows if start in new} - reached
        reached |= new
    return reached


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")


def rooms_of_launch(words: Sequence[str]) -> dict[str, dict[str, int]]:
    """Run `trainway` with the words of a launch, and return how often it enters each module, in order of first entry.

    An entry is a call by a function of another module of ours. The key `before` has the entries until the target
    renders the job, and `whole` all of them. Imports, and functions that pydantic calls, are no entries.
    """
    from trainway.cli import narrowed
    from trainway.launch.target.known import target_named

    target: Any = target_named(words[words.index("--target") + 1]).render
    found: dict[str, Counter[str]] = {"before": Counter(), "whole": Counter()}
    resumed = set[FrameType]()

    def entered(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        room = _module_of(code)
        if event != "call" or room is None or not room.startswith(_ENTERED) or frame in resumed:
            return
        if code.co_flags & inspect.CO_GENERATOR:
            resumed.add(frame)
        if code is target.__code__:
            found["rendered"] = Counter()
        caller = _caller_of(frame)
        if caller != room and (caller is None or caller.startswith(_FOLLOWED)):
            found["whole"][room] += 1
            if "rendered" not in found:
                found["before"][room] += 1

    command = narrowed(words)
    sys.setprofile(entered)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            command(words, standalone_mode=False)
    finally:
        sys.setprofile(None)
    assert "rendered" in found, "the target rendered nothing"
    return {"before": dict(found["before"]), "whole": dict(found["whole"])}


def _caller_of(frame: FrameType) -> str | None:
    """Return the module of ours that calls the function of a frame, or None if it is Typer or this module.

    Returns the module of the function itself if the call is no entry: pydantic calls it, or an import does.
    """
    own, caller, above = _module_of(frame.f_code), None, frame.f_back
    is_entry = frame.f_code.co_name != "<module>"
    while above is not None:
        module = _module_of(above.f_code)
        if module is not None and above.f_code.co_name == "<module>":
            is_entry = False
        if caller is None:
            caller = module
            is_entry = is_entry and "/pydantic/" not in above.f_code.co_filename
        above = above.f_back
    return caller if is_entry else own


def _module_of(code: CodeType) -> str | None:
    """Return the module of ours that has a function, or None."""
    if not code.co_filename.startswith(_FOLDERS):
        return None
    return code.co_filename[len(f"{ROOT}/") : -len(".py")].replace("/", ".").removesuffix(".__init__")


def main() -> None:
    """Replace what stands between the page's markers, or print the modules that a launch enters, as JSON."""
    if words := sys.argv[1:]:
        print(json.dumps(rooms_of_launch(words), indent=2))
        return
    PAGE.write_text(BETWEEN.sub(lambda _: draw(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
