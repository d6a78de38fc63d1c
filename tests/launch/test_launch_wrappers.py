"""A stop reaches every rank that a launcher or a shell script started, once, and the rank saves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.launch.launch_wrappers import OF_PACKAGES, REAL, WRAPPERS, ranks_of, write_files
from tests.launch.programs import packages
from tests.launch.test_start_program import Started, nothing_is_left
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.node.exit_statuses import STOPPED
from trainway.launch.program.program import STARTER

__all__ = ["nothing_is_left"]

# As a pod starts it: the starter is the first process of a container.
IN_CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.mark.parametrize(
    ("wrapper", "container"),
    [
        *((wrapper, False) for wrapper in WRAPPERS),
        ("bash FILE", True),
        *(pytest.param(wrapper, True, marks=pytest.mark.exhaustive) for wrapper in WRAPPERS if wrapper != "bash FILE"),
        *(
            pytest.param(wrapper, inside, marks=pytest.mark.exhaustive)
            for wrapper in (*REAL, *OF_PACKAGES)
            for inside in (False, True)
        ),
    ],
)
def test_every_rank_saves_at_a_stop_has_the_signal_once_and_is_resumed(
    wrapper: str, container: bool, tmp_path: Path
) -> None:
    # A user without root runs the cases without a container. Continuous integration is root and skips nothing.
    if container and os.geteuid():
        pytest.skip("only root makes a PID namespace")
    write_files(tmp_path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = {"PATH": path, "OMP_NUM_THREADS": "1"}
    if wrapper in OF_PACKAGES:
        if why := packages.missing():
            pytest.skip(why)
        needed, words = OF_PACKAGES[wrapper]
        directory = packages.installed(needed)
        told |= {"PATH": f"{directory}/bin:{path}", "PYTHONPATH": str(directory), "DS_ACCELERATOR": "cpu"}
    else:
        words = WRAPPERS[wrapper] if wrapper in WRAPPERS else ("--", *REAL[wrapper])
    ranks = ranks_of(wrapper)
    within = IN_CONTAINER if container else ()
    started = Started(tmp_path, "--grace=60", *words, starter=STARTER, within=within, **told)
    wait_for("every rank is up", lambda: len(list(tmp_path.glob("up-*"))) == ranks)
    started.terminate()
    status, said = started.ends()
    heard = {each.name: each.read_text() for each in tmp_path.glob("heard-*")}
    assert heard == {f"heard-0-{rank}": "SIGTERM " for rank in range(ranks)}, said
    assert len(list(tmp_path.glob("saved-*"))) == ranks, said
    assert (status, started.record()["outcome"]) == (STOPPED, "stopped"), said
    assert "killed" not in started.record()["reason"]
    assert not (tmp_path / "after").exists()

    again = Started(tmp_path, "--grace=60", *words, starter=STARTER, within=within, **told)
    status, said = again.ends()
    assert status == 0, said
    assert len(list(tmp_path.glob("resumed-*"))) == ranks
