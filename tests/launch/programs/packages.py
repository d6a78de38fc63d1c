"""The Python packages of the programs that run here: `python -m tests.launch.programs.packages` installs them.

The locks stay in build/programs, and the packages where a launch on this machine looks for them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from tests.launch.programs.runs_here import JOBS, ROOT, RUNS_HERE
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.program import INSTALLER
from trainway.launch.starting.job_packages import lock_of, python_here

LOCKS = ROOT / "build" / "programs"
INSTALLED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainway" / "packages"


def missing() -> str | None:
    """Return why the programs cannot run here, or None if they can. Continuous integration skips nothing."""
    if "CI" in os.environ or all(record(name).is_file() and installed(name).is_dir() for name in RUNS_HERE):
        return None
    return "their packages are not installed; scripts/install_programs installs them"


def lock(name: str) -> Path:
    """Return the lock of an example's packages for the Python of this machine."""
    requested = load_program(JOBS / name / "job.yaml").packages
    assert requested is not None
    return LOCKS / f"{requested.job}.local.packages.lock"


def record(name: str) -> Path:
    """Return the file that names the directory with an example's packages.

    Its name has a digest of what the example requests and of this Python, so that the packages of an earlier revision
    are not taken for these.
    """
    requested = load_program(JOBS / name / "job.yaml").packages
    assert requested is not None
    text = requested.file.read_text(encoding="utf-8") if requested.file else ""
    digest = sha256(f"{requested.names} {text} {RUNS_HERE[name].build} {sys.version}".encode()).hexdigest()[:16]
    return LOCKS / f"{name}-{digest}.directory"


def installed(name: str) -> Path:
    """Return the directory with an example's packages."""
    return Path(record(name).read_text().strip())


def share(name: str, file_system: Path) -> None:
    """Leave the archive of an example's packages where the first node of a run leaves it (install_packages.py)."""
    archive = file_system / "packages" / str(os.getuid()) / f"{installed(name).name}.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.parent.chmod(0o700)
        with tarfile.open(archive, "w") as tar:
            tar.add(installed(name), arcname=".")


def main() -> None:
    """Lock and install the packages of each program, by the interpreter that starts programs."""
    LOCKS.mkdir(parents=True, exist_ok=True)
    # Install two programs at a time. pip waits for the network, and DeepSpeed's build uses one processor for a minute.
    with ThreadPoolExecutor(max_workers=2) as pool:
        for name, directory in zip(RUNS_HERE, pool.map(install, RUNS_HERE), strict=True):
            print(f"{name}: {directory}", flush=True)


def install(name: str) -> Path:
    """Lock and install the packages of a program. Return the directory of the packages.

    Raises SystemExit with the output of the installer if the installation fails.
    """
    requested = load_program(JOBS / name / "job.yaml").packages
    assert requested is not None
    lock_of(replace(requested, directory=LOCKS), python_here())
    command = [f"{sys.prefix}/bin/python3", str(INSTALLER), str(lock(name)), f"--here={INSTALLED}"]
    environment = os.environ | RUNS_HERE[name].build
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout)
    record(name).write_text(done.stdout)
    return installed(name)


if __name__ == "__main__":
    main()
