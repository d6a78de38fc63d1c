"""`python -m tests.rooms` redraws the pictures of docs/design.md: the folders, and which of them imports which."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache

from tests.synthesis import ROOT

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


def main() -> None:
    """Replace what stands between the page's markers."""
    PAGE.write_text(BETWEEN.sub(lambda _: draw(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
