"""Ways to start a program through launchers and shell scripts: options of the starter, and the files that they need."""

from __future__ import annotations

import sys
from pathlib import Path

# A rank that notes each signal, and needs more than a moment to save. Started again, it finds what it saved, and ends.
RANK = """
import os, pathlib, signal, sys, time
rank = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LOCAL_RANK", "0")
name = f"{os.environ['TRAINWAY_NODE_RANK']}-{rank}"
if os.path.exists(f"saved-{name}"):
    pathlib.Path(f"resumed-{name}").touch()
    sys.exit(0)
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


DEEPSPEED = ("deepspeed", "--num_gpus=2", "--no_local_rank", "rank.py")
# Lightning starts the other ranks itself, as it does in its Trainer.
FABRIC = """
from lightning.fabric import Fabric
Fabric(accelerator="cpu", devices=2, strategy="ddp").launch()
exec(open("rank.py").read())
"""
REAL = {
    "torchrun": ("torchrun", "--nproc-per-node=2", "rank.py"),
    "torchrun in a bash FILE": ("bash", "torchrun.sh"),
    "uv run": ("uv", "run", "--no-project", "--python", sys.executable, "rank.py", "0"),
    "uv run torchrun": ("uv", "run", "--no-project", "--", "torchrun", "--nproc-per-node=2", "rank.py"),
}
# The packages of an example, and what it starts.
OF_PACKAGES = {
    "accelerate launch": ("accelerate", ("--", "accelerate", "launch", "--cpu", "rank.py")),
    "accelerate launch in a bash FILE": ("accelerate", ("--", "bash", "accelerate.sh")),
    "deepspeed of its package": ("deepspeed", ("--", *DEEPSPEED)),
    "deepspeed of its package in a bash FILE": ("deepspeed", ("--", "bash", "deepspeed.sh")),
    "Lightning's own launcher": ("lightning", ("--", "python3", "fabric.py")),
    "Lightning's own launcher in a bash FILE": ("lightning", ("--", "bash", "fabric.sh")),
}
FILES = {
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
    "accelerate.sh": "accelerate launch --cpu rank.py\necho after >after\n",
    "deepspeed.sh": f"{' '.join(DEEPSPEED)}\necho after >after\n",
    "fabric.py": FABRIC,
    "fabric.sh": "python3 fabric.py\necho after >after\n",
    "torchrun.sh": "torchrun --nproc-per-node=2 rank.py\necho after >after\n",
}


def ranks_of(wrapper: str) -> int:
    """Return how many ranks a node has."""
    return 2 if any(each in wrapper for each in ("launcher", "background", "deepspeed", "torchrun")) else 1


def write_files(directory: Path) -> None:
    """Write the files that the commands name."""
    for name, text in FILES.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
