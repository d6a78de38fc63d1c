"""`python -m docs.generators.notices` rewrites the tables of THIRD_PARTY_NOTICES.md from distributions' metadata."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs.generators import ROOT

PAGE = ROOT / "THIRD_PARTY_NOTICES.md"
# The extras that users install. The other extras are for contributors.
EXTRAS = ("report", "platform", "training", "emulator")
# Evaluate requirements for the oldest Python on Linux, so that the page is the same on every machine.
_MACHINE = {
    "python_version": "3.11",
    "python_full_version": "3.11.0",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}


def page() -> str:
    """Return the page with tables of the installed distributions."""
    text = PAGE.read_text(encoding="utf-8")
    between = re.compile(r"(?<=<!-- distributions -->\n).*(?=<!-- /distributions -->)", re.DOTALL)
    return between.sub(lambda _: _tables(), text)


def _tables() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    seen = set[str]()
    parts = []
    for title, roots in (
        ("`pip install trainway`", project["dependencies"]),
        *((f"The extra `{name}`, beside those above", project["optional-dependencies"][name]) for name in EXTRAS),
    ):
        found = {name: each for name, each in closure(roots).items() if name not in seen}
        seen |= found.keys()
        rows = "".join(f"| {each.name} | {license_of(each)} | {home_of(each)} |\n" for _, each in sorted(found.items()))
        parts.append(f"## {title}\n\n| Distribution | License | Home |\n|---|---|---|\n{rows}")
    return "\n".join(["", *parts, ""])


def closure(roots: Iterable[str]) -> dict[str, Distribution]:
    """Return the distributions that requirements install, directly or indirectly, by their canonical names."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(each) for each in roots]
    done = set[tuple[str, tuple[str, ...]]]()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), tuple(sorted(requirement.extras))
        if (name, extras) in done:
            continue
        done.add((name, extras))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            # PyTorch's build for CPUs leaves out what its build for GPUs requires.
            continue
        waiting += _required(found[name], ("", *extras))
    return found


def _required(installed: Distribution, extras: tuple[str, ...]) -> Iterator[Requirement]:
    for text in installed.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({**_MACHINE, "extra": extra}) for extra in extras):
            yield requirement


def _field(installed: Distribution, name: str) -> str:
    return str(installed.metadata[name]) if name in installed.metadata else ""


def license_of(installed: Distribution) -> str:
    """Return the license of a distribution: its SPDX expression, or otherwise the name of the license in its metadata.

    Raises ValueError if its metadata says nothing.
    """
    said = _field(installed, "License-Expression")
    words = _field(installed, "License").strip()
    if not said and words not in ("", "UNKNOWN", "Dual License") and "\n" not in words and len(words) < 80:
        said = words
    named = [
        each.rpartition(" :: ")[2]
        for each in installed.metadata.get_all("Classifier") or ()
        if each.startswith("License ::")
    ]
    said = said or ", ".join(named)
    if not said:
        raise ValueError(f"the metadata of {installed.name} has no license")
    return said.replace("|", "\\|")


def home_of(installed: Distribution) -> str:
    """Return the address of a distribution's project."""
    addresses = dict(each.partition(", ")[::2] for each in installed.metadata.get_all("Project-URL") or ())
    by_name = {name.lower(): address for name, address in addresses.items()}
    names = ("homepage", "home", "repository", "source", "source code", "github", "documentation")
    known = next((by_name[name] for name in names if name in by_name), None)
    return known or _field(installed, "Home-page") or next(iter(addresses.values()), "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
