"""An environment as a user of the wheel has it: the wheel and what it requires, far from the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.synthesis import ROOT

# Runs at every start of the environment's Python. Nothing there may read the checkout, not even by an absolute path.
AWAY = """\
import sys

def refuse(event, arguments):
    if event == "open" and str(arguments[0]).startswith({root!r}):
        raise PermissionError(f"{{arguments[0]}} is in the checkout")

sys.addaudithook(refuse)
"""


@dataclass(frozen=True)
class WheelEnvironment:
    """A virtual environment with the wheel, and a directory to work in."""

    directory: Path
    site: Path
    work: Path

    def trainway(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command in the working directory."""
        return self._run(self.directory / "bin/trainway", *arguments, **variables)

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        """Run a program of Python in the working directory."""
        return self._run(self.directory / "bin/python", "-c", program)

    def _run(self, *command: Path | str, **variables: str) -> subprocess.CompletedProcess[str]:
        base = {"PATH": f"{self.directory / 'bin'}:/usr/bin:/bin", "HOME": str(self.work), "COLUMNS": "200"}
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.work,
            env=base | variables,
            capture_output=True,
            text=True,
            check=False,
        )


def build_wheel(out: Path) -> Path:
    """Build the wheel of this checkout, by the backend that is installed."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(out)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True)
    (wheel,) = out.glob("trainway-*.whl")
    return wheel


def install_wheel(wheel: Path, directory: Path) -> WheelEnvironment:
    """Install a wheel and what its base requires into an empty virtual environment.

    The packages that it requires are copied from the environment of the tests, which has the versions of
    constraints.txt. So no index is asked.
    """
    venv.create(directory / "venv", with_pip=False)
    python = directory / "venv/bin/python"
    install = ["--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    site = site_of(directory / "venv")
    (installed,) = Distribution.discover(name="trainway", path=[str(site)])
    provide(installed.requires or [], site)
    keep_away(site)
    work = directory / "work"
    work.mkdir()
    return WheelEnvironment(directory / "venv", site, work)


def site_of(environment: Path) -> Path:
    """Return the site-packages directory of a virtual environment."""
    (site,) = (environment / "lib").glob("python*/site-packages")
    return site


def provide(requirements: Iterable[str], site: Path) -> None:
    """Copy the packages that requirements need from the environment of the tests."""
    for each in required(requirements):
        _copy(each, site)


def keep_away(site: Path) -> None:
    """Make the Python of the environment refuse to open files of the checkout."""
    (site / "zz_away.py").write_text(AWAY.format(root=f"{ROOT}/"), encoding="utf-8")
    (site / "zz_away.pth").write_text("import zz_away\n", encoding="utf-8")


def required(requirements: Iterable[str]) -> list[Distribution]:
    """Return the distributions that requirements lead to, without those of extras that nobody asks for."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(each) for each in requirements]
    seen = set[str]()
    while waiting:
        each = waiting.pop()
        if str(each) in seen or (each.marker and not each.marker.evaluate({"extra": ""})):
            continue
        seen.add(str(each))
        one = found.setdefault(canonicalize_name(each.name), distribution(each.name))
        for line in one.requires or []:
            below = Requirement(line)
            if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in ("", *each.extras)):
                below.marker = None
                waiting.append(below)
    return list(found.values())


def megabytes(folder: Path) -> float:
    """Return the disk space of a folder, in MB of a million bytes."""
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*")) / 1e6


def _copy(installed: Distribution, site: Path) -> None:
    for file in installed.files or []:
        # Commands are beside site-packages. None of them is needed.
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(installed.locate_file(file)), target)
