"""From bare nodes to a Slurm cluster on which the bundled job trains, by the lifecycle scripts and nothing else.

What the scripts promise of it: a second run changes nothing, a run that was killed is made good by the next one, and
nothing is asked of the internet.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.launch.conftest import hand_off
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from tests.lifecycle_scripts.nodes import CHECKOUT, DOWNLOADED, Lab, Node, at_once, missing, nodes
from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.slurm import SlurmOptions, render_script
from trainway.spec.handoff import HandOff
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_accounts import slurm_accounts
from trainway.spec.slurm.slurm_users import slurm_users

WHY_NOT = missing()
__all__ = ["hand_off"]
pytestmark = [pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""), pytest.mark.exhaustive]

FRESH = [f"fresh{number}" for number in range(10)]
GROUPS = {"controller": ["ctl"], "train": ["n1", "n2", "victim", *FRESH]}
LATER = ["victim", *FRESH]
BUCKET, REGION = "s3://platform/lifecycle_scripts", "us-west-2"
# All that a platform can ask of its nodes' scripts here. What it knows of the instance type is a share of this machine.
PARAMETERS: dict[str, Any] = {
    "exporters": True,
    "slurm": {
        "health_checks": True,
        "instance_types": {"ml.m5.xlarge": {"cpus": os.cpu_count(), "memory_mib": 2048}},
    },
    "slurm_accounts": {"s3_uri": f"{BUCKET}/slurm-accounts.json", "region": REGION},
    "slurm_users": {"s3_uri": f"{BUCKET}/slurm-users.json", "region": REGION},
}
PLATFORM = {
    "name": "atlas",
    "region": REGION,
    "zones": ["usw2-az1"],
    "orchestrator": "hyperpod-slurm",
    "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 3}],
    "slurm": {"users": [{"name": "ada", "uid": 2001}, {"name": "ben", "uid": 2002, "sudo": True}]},
}
JOB: dict[str, Any] = {"steps": 6, "data": {"train": "fsx:/corpus/small", "sequence_length": 64}}
# Drawn by lot, or made of what was; and the list of the nodes, where each stands at its own place.
OWN = re.compile(r"/etc/(hosts|machine-id|munge/|ssh/)|/var/lib/trainway/sshd-settings")


def state_of(node: str, lab: Lab) -> str:
    """How Slurm sees a node."""
    asked = ["sinfo", "--noheader", "--Node", f"--nodes={lab[node].hostname}", "--format=%T"]
    return lab["ctl"].run(*asked, check=False).stdout.strip()


def becomes_idle(node: str, lab: Lab) -> None:
    """Waits until Slurm gives the node work."""
    wait_for(f"{node} is idle and not {state_of(node, lab)}", lambda: state_of(node, lab) == "idle")


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout.splitlines() or [""])[-1]


def well(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done


@contextmanager
def bare_cluster(directory: Path, off: Sequence[str]) -> Iterator[Lab]:
    """The nodes, what the platform's bucket has for them, and a script of the team's own."""
    platform = Platform.model_validate(PLATFORM)
    with nodes(directory, GROUPS, parameters=PARAMETERS, off=off) as lab:
        folder = lab.s3 / BUCKET.removeprefix("s3://")
        folder.mkdir(parents=True)
        (folder / "slurm-accounts.json").write_text(json.dumps(slurm_accounts(platform)))
        (folder / "slurm-users.json").write_text(json.dumps(slurm_users(platform)))
        for node in lab.nodes.values():
            node.write(f"{DOWNLOADED}/yours/custom.d/10-mark.sh", "[[ -e /opt/mark ]] || touch /opt/mark\n")
        yield lab


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """All nodes of it provisioned at once; those of LATER are off."""
    with bare_cluster(tmp_path_factory.mktemp("cluster"), LATER) as lab:
        for done in at_once(lambda name: counted(lab[name]), ["ctl", "n1", "n2"]).values():
            well(done)
        yield lab


@pytest.fixture(scope="module")
def commands(cluster: Lab) -> dict[str, dict[str, int]]:
    """How many commands each step has, by node."""
    return {name: commands_of(cluster[name]) for name in ("ctl", "n1")}


@pytest.mark.usefixtures("commands")
def test_the_nodes_are_idle_when_their_scripts_have_ended(cluster: Lab) -> None:
    assert {name: state_of(name, cluster) for name in ("n1", "n2")} == {"n1": "idle", "n2": "idle"}


def test_the_bundled_job_trains_on_two_nodes(cluster: Lab, hand_off: HandOff, tmp_path: Path) -> None:
    corpus = cluster.shared / "corpus" / "small"
    prepare = ["--corpus", "python-stdlib", "--limit-bytes", "400000", "--vocabulary", "512", "--out", str(corpus)]
    subprocess.run([sys.executable, "-m", "training.prepare", *prepare], check=True, cwd=CHECKOUT)
    checkpoint = {"every": 3, "location": "fsx:/checkpoints/first"}
    asked = request(tmp_path, on_slurm(hand_off), run="first", nodes=2, checkpoint=checkpoint, **JOB)
    script = render_script(asked, CATALOGUE, SlurmOptions(environment=PurePosixPath(sys.prefix)))
    run = cluster.shared / "runs" / "first"
    (run / "logs").mkdir(parents=True)
    (run / "script").write_text(script)
    cluster["ctl"].run("chown", "-R", "ada:", "/fsx/runs/first")
    submit = ["runuser", "--user=ada", "--", "sbatch", "--wait", "/fsx/runs/first/script"]
    said = cluster["ctl"].run(*submit, timeout=1800, check=False)
    assert (run / "logs" / "slurm.log").exists(), said.stdout + said.stderr
    log = (run / "logs" / "slurm.log").read_text()
    of_ranks = "".join(file.read_text() for file in sorted(run.glob("logs/start-0/*/*/attempt_0/*/stdout.log")))
    losses = [float(loss) for loss in re.findall(r"step=\d+/6 .*?loss=([0-9.]+)", of_ranks)]
    assert len(losses) >= 6, log[-4000:]
    assert losses[-1] < losses[0]
    assert (run / "outcome").read_text().strip() == "succeeded"
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert events[0]["event"] == "start" and events[-1]["event"] == "end" and events[-1]["step"] == 6
    assert len(list(run.glob("logs/start-0/*"))) == 2


@pytest.mark.parametrize("name", ["ctl", "n1"])
def test_a_second_run_changes_nothing(cluster: Lab, name: str) -> None:
    before = cluster[name].snapshot(times=True)
    done = well(cluster[name].provision())
    assert differences(before, cluster[name].snapshot(times=True)) == {}
    # Nor does a step say that it has done something.
    assert not re.findall(
        r"^.*\b(?:wrote|made|added|installed|started|restarted|signed)\b.*$", done.stdout, re.MULTILINE
    )


def test_a_node_that_was_switched_off_and_on_needs_no_scripts(cluster: Lab) -> None:
    cluster["n2"].cut_power()
    cluster["n2"].boot()
    becomes_idle("n2", cluster)
    cluster["n2"].run("mountpoint", "/fsx")


# Half a minute when nothing else runs. Two at a time, as HyperPod makes several at once.
def test_ten_of_ten_fresh_nodes_are_idle_without_a_second_try(
    cluster: Lab, record_property: Callable[[str, object], None]
) -> None:
    def seconds_to_idle(name: str) -> float:
        began = time.monotonic()
        cluster[name].boot()
        well(cluster[name].provision())
        becomes_idle(name, cluster)
        took = time.monotonic() - began
        cluster[name].cut_power()
        return round(took, 1)

    seconds: dict[str, float] = {}
    for first in range(0, len(FRESH), 2):
        seconds |= at_once(seconds_to_idle, FRESH[first : first + 2])
    record_property("seconds_to_idle", seconds)
    assert len(seconds) == 10


def test_a_compute_node_whose_steps_are_killed_converges(cluster: Lab, commands: dict[str, dict[str, int]]) -> None:
    cluster["victim"].boot()
    kill_every_step(cluster["victim"], commands["n1"])
    assert differences(alike(cluster["n1"]), alike(cluster["victim"])) == {}
    becomes_idle("victim", cluster)


def test_a_controller_whose_steps_are_killed_converges(
    cluster: Lab, commands: dict[str, dict[str, int]], tmp_path: Path
) -> None:
    with bare_cluster(tmp_path, GROUPS["train"]) as lab:
        kill_every_step(lab["ctl"], commands["ctl"])
        assert differences(alike(cluster["ctl"]), alike(lab["ctl"])) == {}
        lab["n1"].boot()
        well(lab["n1"].provision())
        becomes_idle("n1", lab)


def test_nothing_is_asked_of_the_internet(cluster: Lab) -> None:
    # The last test that uses it: this is of all that the scripts did in the others.
    assert cluster.asked_outside() == []


def differences(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def alike(node: Node) -> dict[str, str]:
    """A node's snapshot without what is its own."""
    return {name: what.split(" ")[0] if OWN.match(name) else what for name, what in node.snapshot().items()}


# Read by every shell of a run. Counts the commands of each step, with those of functions and scripts that it calls, and
# kills one of the steps when it comes to one of them: before it, or a moment later.
COUNTER = "/opt/ml/counter.sh"
COUNTING = r"""
if [[ -z "${STEP:-}" && "$0" == */steps/*.sh ]]; then
  export STEP STEP_PID=$$
  STEP=$(basename "$0" .sh)
  mkdir -p /run/commands
  echo 0 >"/run/commands/$STEP"
fi
if [[ -n "${STEP:-}" ]]; then
  count() {
    local number
    # Parts of a pipe count at the same time, and one may read what another has not written yet.
    read -r number <"/run/commands/$STEP" || true
    [[ "$number" =~ ^[0-9]+$ ]] || number=0
    ((number += 1))
    echo "$number" >"/run/commands/$STEP"
    if [[ "$STEP" == "${KILL_STEP:-}" ]] && ((number == KILL_AT)); then
      if [[ "$KILL_AFTER" == 0 ]]; then
        kill -9 "$STEP_PID"
      else
        { sleep "$KILL_AFTER"; kill -9 "$STEP_PID"; } >/dev/null 2>&1 &
      fi
    fi
  }
  set -o functrace
  trap count DEBUG
fi
"""


def counted(node: Node, **environment: Any) -> subprocess.CompletedProcess[str]:
    """Provisions the node, and counts how many commands each step has."""
    node.write(COUNTER, COUNTING)
    return node.provision(BASH_ENV=COUNTER, **environment)


def commands_of(node: Node) -> dict[str, int]:
    """How many commands each step of a counted run had."""
    found = node.run("bash", "-c", "cd /run/commands && grep -H . *").stdout
    return {name: int(count) for name, count in (line.split(":") for line in found.splitlines())}


def kill_every_step(node: Node, commands: dict[str, int]) -> None:
    """Kills each step half-way when it runs for the first time on a node, then lets all of them run once more."""
    steps, all_steps = node.root / DOWNLOADED.lstrip("/") / "steps", node.root / "opt/ml/all-steps"
    steps.rename(all_steps)
    steps.mkdir()
    names = sorted(commands)
    never_reached = []
    for before, name, count in zip([None, *names], names, map(commands.__getitem__, names), strict=False):
        # Together with the step before it, which is made good. Running all that were before would only take longer.
        for path in steps.iterdir():
            if path.stem != before:
                path.unlink()
        shutil.copy(all_steps / f"{name}.sh", steps)
        # How many there are depends a little on what is waited for.
        at, after = random.randint(1, max(1, count * 4 // 5)), random.choice((0, 0.05))
        done = counted(node, KILL_STEP=name, KILL_AT=str(at), KILL_AFTER=str(after))
        moment = f"{name}, {after} s after command {at} of {count}"
        # A step that waited for less has fewer commands here than on the node where they were counted.
        if done.returncode == 0 and commands_of(node)[name] < at:
            never_reached.append(moment)
            continue
        # A step may be over a moment later.
        assert done.returncode == 1 or (after and done.returncode == 0), f"{moment}: {done.stdout}"
        assert done.returncode == 0 or "killed by signal 9" in last_line(done), f"{moment}: {done.stdout}"
    assert len(never_reached) <= len(names) // 4, never_reached
    shutil.copytree(all_steps, steps, dirs_exist_ok=True)
    well(node.provision())
