"""Code that was synced is what the container's program imports, and the program is its first process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.launch.kubernetes.kubelet import expanded
from tests.launch.kubernetes.platforms import ROOT
from trainway.launch.kubernetes.process import CODE, DIRECTORY, node_command
from trainway.launch.node.exit_statuses import NOT_FOUND
from trainway.launch.program.program import SYNCED_CODE
from trainway.launch.starting.code import pack

PROGRAM = ("python", "-c", "import os, mine, training; print(mine.WORD, os.getpid(), training.__file__)")


def run_with(archive: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = node_command(PROGRAM, archive)
    # The directories of a pod, and where they are on this machine.
    of_pod = {CODE: tmp_path / "code", str(DIRECTORY): SYNCED_CODE.parent}
    here = [expanded(word, {}) for word in command]
    for directory, there in of_pod.items():
        here = [word.replace(directory, str(there)) for word in here]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(here, env=environment, stdout=-1, stderr=-1, text=True, cwd=tmp_path) as process:
        printed, said = process.communicate(timeout=60)
    return subprocess.CompletedProcess([str(process.pid)], process.returncode, printed, said)


def test_the_program_sees_it_before_the_images_own(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "mine.py").write_text("WORD = 'changed'\n")
    archive, digest = pack(source)
    (tmp_path / f"{digest}.tar.gz").write_bytes(archive)
    ran = run_with(f"{tmp_path}/{digest}.tar.gz", tmp_path)
    assert ran.returncode == 0, ran.stderr
    # The first process is the one that is told to stop: the shell has become the program.
    assert ran.stdout.split() == ["changed", *ran.args, f"{ROOT}/training/__init__.py"]


def test_without_the_archive_the_program_does_not_start(tmp_path: Path) -> None:
    ran = run_with(f"{tmp_path}/{64 * '0'}.tar.gz", tmp_path)
    assert ran.returncode == NOT_FOUND
    assert "there is no code at" in ran.stderr and "changed" not in ran.stdout
