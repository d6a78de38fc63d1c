"""A stop reaches every rank that a launcher or a shell script started, once, and the rank saves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.launch.test_start_program import Started, nothing_is_left
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.node.exit_statuses import STOPPED

__all__ = ["nothing_is_left"]

# A rank that needs more than a moment to save, and notes each signal.
RANK = """
import os, pathlib, signal, sys, time
name = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LOCAL_RANK", "0")
def save(number, frame):
    with open(f"heard-{name}", "a") as heard:
        heard.write(signal.Signals(number).name + " ")
    time.sleep(1)
    pathlib.Path(f"saved-{name}").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path(f"up-{name}").touch()
time.sleep(3600)
"""
# A launcher that starts two ranks, and waits for them.
LAUNCHER = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "rank.py"], env={**os.environ, "LOCAL_RANK": str(n)}) for n in range(2)]
sys.exit(max(each.wait() for each in ranks))
"""
# As that of DeepSpeed does, it kills its ranks soon after it is told to stop.
KILLER = f"""
import signal, time
def end(number, frame):
    for _ in range(2):
        for each in ranks:
            each.send_signal(number)
        time.sleep(0.1)
    for each in ranks:
        each.kill()
    sys.exit(1)
{LAUNCHER.replace("sys.exit", "signal.signal(signal.SIGTERM, end)" + chr(10) + "sys.exit")}
"""
# It passes the signal on, and does not wait.
FORWARDER = f"""
import signal
def end(number, frame):
    for each in ranks:
        each.send_signal(number)
    os._exit(1)
{LAUNCHER.replace("sys.exit", "signal.signal(signal.SIGTERM, end)" + chr(10) + "sys.exit")}
"""
IN_BACKGROUND = "python3 rank.py 0 & python3 rank.py 1 & wait"
WRAPPERS: dict[str, tuple[str, ...]] = {
    "the program itself": ("--", "python3", "rank.py", "0"),
    "bash FILE": ("--", "bash", "python.sh"),
    "bash FILE, whose program's output is read": ("--", "bash", "piped.sh"),
    "bash FILE in a bash FILE": ("--", "bash", "bash.sh"),
    "bash FILE with programs in the background": ("--", "bash", "background.sh"),
    "bash FILE that ignores the signal": ("--", "bash", "ignoring.sh"),
    "a script": ("--script", "--", "python3 rank.py 0 | cat >said"),
    "a script with bash FILE": ("--script", "--", "bash bash.sh"),
    "a script with programs in the background": ("--script", "--", IN_BACKGROUND),
    "env": ("--", "env", "A=1", "bash", "python.sh"),
    "a launcher in Python": ("--", "python3", "launcher.py"),
    "a launcher in a bash FILE": ("--", "bash", "launcher.sh"),
    "a launcher that passes the signal on and does not wait": ("--", "python3", "forwarder.py"),
    "deepspeed": ("--", "./deepspeed", "rank.py"),
}


REAL = {
    "torchrun": ("torchrun", "--nproc-per-node=2", "rank.py"),
    "torchrun in a bash FILE": ("bash", "torchrun.sh"),
    "uv run": ("uv", "run", "--no-project", "--python", sys.executable, "rank.py", "0"),
    "uv run torchrun": ("uv", "run", "--no-project", "--", "torchrun", "--nproc-per-node=2", "rank.py"),
}
# As a pod starts it: the starter is the first process of a container.
IN_CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.mark.parametrize(
    ("wrapper", "container"),
    [
        *((wrapper, False) for wrapper in WRAPPERS),
        ("bash FILE", True),
        *(pytest.param(wrapper, True, marks=pytest.mark.exhaustive) for wrapper in WRAPPERS if wrapper != "bash FILE"),
        *(pytest.param(wrapper, inside, marks=pytest.mark.exhaustive) for wrapper in REAL for inside in (False, True)),
    ],
)
def test_every_rank_saves_at_a_stop_and_has_the_signal_once(wrapper: str, container: bool, tmp_path: Path) -> None:
    # A user without root runs the cases without a container. Continuous integration is root and skips nothing.
    if container and os.geteuid():
        pytest.skip("only root makes a PID namespace")
    texts = {
        "rank.py": RANK,
        "launcher.py": LAUNCHER,
        "forwarder.py": FORWARDER,
        "deepspeed": f"#!{sys.executable}\n{KILLER}",
        "python.sh": "python3 rank.py 0\n",
        "piped.sh": "python3 rank.py 0 2>&1 | sed s/a/b/ | tee said\n",
        "bash.sh": "bash python.sh\necho after >after\n",
        "background.sh": f"{IN_BACKGROUND}\n",
        "ignoring.sh": "trap '' TERM\npython3 rank.py 0\n",
        "launcher.sh": "set -e\npython3 launcher.py\n",
        "torchrun.sh": "torchrun --nproc-per-node=2 rank.py\necho after >after\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    words = WRAPPERS[wrapper] if wrapper in WRAPPERS else ("--", *REAL[wrapper])
    ranks = 2 if any(each in wrapper for each in ("launcher", "background", "deepspeed", "torchrun")) else 1
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    started = Started(
        tmp_path, "--grace=60", *words, PATH=path, OMP_NUM_THREADS="1", within=IN_CONTAINER if container else ()
    )
    wait_for("every rank is up", lambda: len(list(tmp_path.glob("up-*"))) == ranks)
    started.terminate()
    status, said = started.ends()
    heard = {each.name: each.read_text() for each in tmp_path.glob("heard-*")}
    assert heard == {f"heard-{rank}": "SIGTERM " for rank in range(ranks)}, said
    assert len(list(tmp_path.glob("saved-*"))) == ranks, said
    assert (status, started.record()["outcome"]) == (STOPPED, "stopped"), said
    assert "killed" not in started.record()["reason"]
    assert not (tmp_path / "after").exists()
