"""What runs the steps, with steps of the test's own: in order, each for so long, one run at a time, always an end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.page import blocks, page

SCRIPTS = Path(__file__).resolve().parents[2] / "lifecycle_scripts"


@dataclass
class Runner:
    """The entry points and what they need, in a folder of the test's, with a scratch root."""

    path: Path

    @property
    def root(self) -> Path:
        return self.path / "root"

    @property
    def state(self) -> dict[str, Any]:
        return json.loads((self.root / "var/lib/trainway/provisioning.json").read_text())

    def step(self, name: str, body: str) -> None:
        (self.path / "scripts/steps" / f"{name}.sh").write_text(f"set -euo pipefail\n{body}\n")

    def command(self, **variables: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "NODE_ROOT": str(self.root),
            "SAGEMAKER_RESOURCE_CONFIG_PATH": str(self.path / "resource_config.json"),
            "FAILURE_PAUSE_SECONDS": "0",
            "FACTS_WAIT_SECONDS": "0",
            **variables,
        }
        return ["bash", str(self.path / "scripts/on_create.sh")], environment

    def run(self, **variables: str) -> subprocess.CompletedProcess[str]:
        command, environment = self.command(**variables)
        return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=60)

    def start(self, **variables: str) -> subprocess.Popen[str]:
        command, environment = self.command(**variables)
        return subprocess.Popen(command, env=environment, cwd="/", stdout=subprocess.PIPE, text=True)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    # A name that a shell would take apart, and files that nobody may execute: what S3 gives has no modes.
    scripts = tmp_path / "it's a $(folder)" / "scripts"
    scripts.mkdir(parents=True)
    for name in ("on_create.sh", "run_steps.py", "limited.py", "node_facts.py", "parameters.schema.json", "lib.sh"):
        shutil.copyfile(SCRIPTS / name, scripts / name)
        (scripts / name).chmod(0o400)
    (scripts / "steps").mkdir()
    own = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()[0]
    group = {"Name": "train", "InstanceType": "ml.g5.xlarge", "Instances": [{"CustomerIpAddress": own}]}
    config = {"ClusterConfig": {"ClusterName": "at'las $HOME"}, "InstanceGroups": [group]}
    (scripts.parent / "resource_config.json").write_text(json.dumps(config))
    (scripts / "parameters.json").write_text(json.dumps({"orchestrator": "hyperpod-eks"}))
    return Runner(scripts.parent)


def test_steps_run_in_order_with_the_facts_and_nothing_to_read(runner: Runner) -> None:
    runner.step("20-second", 'echo "$PWD $NODE_GROUP $CLUSTER_NAME"; ! read -r line')
    runner.step("10-first", "echo WARNING: a switch is off")
    (runner.path / "scripts/steps/README.md").write_text("no step")
    done = runner.run()
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    said = [re.sub(r" \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "", line) for line in lines]
    assert said[0].startswith("[facts] compute of group train (ml.g5.xlarge), cluster at'las $HOME")
    assert said[1:3] == ["[10-first] start", "[10-first] WARNING: a switch is off"]
    assert said[4:6] == ["[20-second] start", "[20-second] / train at'las $HOME"]
    assert re.fullmatch(
        r"\[finished\] all 2 steps in \d+ s, of version [0-9a-f]{12}; longest: .*; "
        r"1 warnings, the first: 10-first: a switch is off",
        said[-1],
    )
    assert (runner.root / "var/log/provision/provisioning.log").read_text() == done.stdout


def test_what_was_done_is_written_down_with_the_version_that_did_it(runner: Runner) -> None:
    runner.step("10-first", "echo WARNING: a switch is off")
    runner.run()
    first = runner.state
    assert first["status"] == "done" and first["started_by"] == "script" and first["why"] is None
    [step] = first["steps"]
    assert (step["name"], step["status"], step["said"]) == ("10-first", "done", "WARNING: a switch is off")
    assert first["warnings"] == ["10-first: a switch is off"]
    runner.run()
    assert runner.state["version"] == first["version"]
    runner.step("10-first", "echo another")
    runner.run()
    assert runner.state["version"] != first["version"]


def test_an_environment_without_anything_is_enough(runner: Runner) -> None:
    runner.step("10-first", 'echo "$HOME"; printenv PATH; umask')
    environment = {name: value for name, value in runner.command()[1].items() if name != "PATH"}
    done = subprocess.run(
        ["/bin/bash", str(runner.path / "scripts/on_create.sh")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[10-first] /root\n" in done.stdout
    assert "[10-first] /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" in done.stdout
    assert "[10-first] 0022" in done.stdout


def test_the_first_step_that_fails_is_the_last_with_its_own_words(runner: Runner) -> None:
    runner.step("10-first", "echo the disk is on fire; exit 3")
    runner.step("20-second", "echo never")
    done = runner.run()
    assert done.returncode == 1
    assert re.fullmatch(r"\[10-first\] \S+ FAILED: status 3; the disk is on fire", done.stdout.splitlines()[-1])
    assert "never" not in done.stdout
    assert (runner.state["status"], runner.state["why"]) == ("failed", "status 3; the disk is on fire")


def test_a_step_that_was_killed_did_not_run_out_of_time(runner: Runner) -> None:
    runner.step("10-first", "echo allocating; kill -9 $$")
    done = runner.run()
    assert done.stdout.splitlines()[-1].endswith("FAILED: killed by signal 9; allocating")


def reads(run: subprocess.Popen[str], text: str) -> None:
    """Returns once the run has printed it."""
    assert run.stdout
    lines = []
    for line in run.stdout:
        lines.append(line)
        if text in line:
            return
    raise AssertionError("".join(lines))


def alive(marker: str) -> list[str]:
    found = subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True, check=False)
    return found.stdout.split()


@contextmanager
def a_marker() -> Iterator[str]:
    """A number of seconds that nobody else sleeps; whoever still does at the end is ended."""
    marker = f"sleep 98{os.getpid()}"
    try:
        yield marker
    finally:
        for process in alive(marker):
            os.kill(int(process), signal.SIGKILL)


# In the foreground, in the background, in a session of its own, and as a daemon that nobody is the parent of.
EVERYWHERE = "{sleep} & setsid {sleep} & (setsid {sleep} &) ; {sleep}"


@pytest.mark.parametrize("ended_by", ["limit", "signal", "death"])
def test_a_step_ends_with_all_that_it_started(runner: Runner, ended_by: str) -> None:
    with a_marker() as marker:
        deaf = "trap '' TERM\n" if ended_by == "limit" else ""
        runner.step("10-first", f"{deaf}echo waits forever\n{EVERYWHERE.format(sleep=marker)}")
        run = runner.start(GRACE_SECONDS="1", STEP_TIMEOUT_SECONDS="2" if ended_by == "limit" else "3600")
        reads(run, "waits forever")
        while len(alive(marker)) < 4:
            time.sleep(0.05)
        if ended_by != "limit":
            run.send_signal(signal.SIGTERM if ended_by == "signal" else signal.SIGKILL)
        last = run.communicate(timeout=300)[0].splitlines()[-1:]
        deadline = time.monotonic() + 300
        while alive(marker) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert alive(marker) == []
    if ended_by == "death":
        assert (run.returncode, runner.state["status"]) == (-9, "running")
        return
    whys = {"limit": "ran past its limit of 2 seconds", "signal": "SIGTERM ended the run, and this step with it"}
    why = whys[ended_by]
    assert run.returncode == 1
    assert re.fullmatch(rf"\[10-first\] \S+ FAILED: {why}", last[0])
    assert runner.state["why"] == why


def test_a_step_that_is_killed_leaves_nothing_behind(runner: Runner) -> None:
    """A process of a killed step could write the same files as the next run."""
    with a_marker() as marker:
        runner.step("10-first", f"{marker} & setsid {marker} & (setsid {marker} &)\necho kills itself\nkill -9 $$")
        done = runner.run()
        assert done.stdout.splitlines()[-1].endswith("FAILED: killed by signal 9; kills itself")
        assert alive(marker) == []


def test_a_step_does_not_outlive_what_limits_it(runner: Runner) -> None:
    with a_marker() as marker:
        runner.step("10-first", f"echo waits; exec {marker}")
        run = runner.start()
        while not (found := alive(marker)):
            time.sleep(0.05)
        limiter = int(Path(f"/proc/{found[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(limiter, signal.SIGKILL)
        last = run.communicate(timeout=300)[0].splitlines()[-1]
        assert last.endswith("FAILED: killed by signal 9; waits")
        deadline = time.monotonic() + 300
        while alive(marker) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert alive(marker) == []


def test_what_a_step_leaves_behind_is_not_waited_for(runner: Runner) -> None:
    with a_marker() as marker:
        runner.step("10-first", f"{marker} & echo started")
        assert runner.run().returncode == 0
        assert alive(marker)


def test_one_that_goes_on_talking_is_not_listened_to(runner: Runner) -> None:
    # A step that were listened to as long as somebody talks would run past its limit, and fail.
    runner.step("10-first", "(while sleep 0.05; do echo talks; done) & echo started")
    assert runner.run(STEP_TIMEOUT_SECONDS="15").returncode == 0


def test_two_runs_on_a_node_follow_each_other(runner: Runner) -> None:
    runner.step("10-first", 'echo in >>"$NODE_ROOT/order"; sleep 1; echo out >>"$NODE_ROOT/order"')
    first, second = runner.start(), runner.start()
    outputs = [run.communicate(timeout=300)[0] for run in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    assert (runner.root / "order").read_text().split() == ["in", "out"] * 2
    assert sum("is provisioning this node; waiting for it" in output for output in outputs) == 1


def test_a_run_that_never_ends_keeps_another_waiting_only_so_long(runner: Runner) -> None:
    runner.step("10-first", "echo begins; sleep 3600")
    first = runner.start()
    reads(first, "begins")
    second = runner.run(LOCK_WAIT_SECONDS="0")
    before = runner.state
    first.terminate()
    first.communicate(timeout=300)
    assert second.returncode == 1
    assert f"process {first.pid} has been provisioning this node for 0 s" in second.stdout.splitlines()[-1]
    # And does not write over what the other one is at.
    assert before["status"] == "running"


def test_a_run_that_was_killed_leaves_no_lock(runner: Runner) -> None:
    runner.step("10-first", "echo begins; sleep 3600")
    first = runner.start()
    reads(first, "begins")
    first.kill()
    first.communicate(timeout=300)
    runner.step("10-first", "true")
    assert runner.run(LOCK_WAIT_SECONDS="300").returncode == 0


@pytest.fixture
def small_disk(runner: Runner) -> Iterator[Path]:
    """A /var of 64 KiB."""
    if os.geteuid():
        pytest.skip("only root mounts a small disk")
    var = runner.root / "var"
    var.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", var], check=True)
    try:
        yield var
    finally:
        subprocess.run(["umount", var], check=True)


def test_a_disk_that_is_full_is_said_where_it_can_be_and_fails_the_run(runner: Runner, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * 64 * 1024)
    runner.step("10-first", "echo never")
    done = runner.run()
    assert done.returncode == 1
    assert "No space left on device; `df -h" in done.stdout.splitlines()[-1]
    assert "No space left on device" in done.stderr
    assert "never" not in done.stdout


def test_a_disk_that_becomes_full_ends_the_run_after_the_step_that_filled_it(runner: Runner, small_disk: Path) -> None:
    runner.step("10-first", f"for i in $(seq 200); do echo {'x' * 1000}; done; echo and on it goes")
    runner.step("20-second", "echo never")
    done = runner.run()
    assert done.returncode == 1
    assert "and on it goes" in done.stdout
    assert "provisioning.log: No space left on device" in done.stdout.splitlines()[-1]
    assert "never" not in done.stdout
    assert small_disk.exists()


def test_a_listener_that_goes_away_stops_nothing(runner: Runner) -> None:
    runner.step("10-first", 'for i in $(seq 2000); do echo "$i"; done; touch "$NODE_ROOT/reached"')
    run = runner.start()
    assert run.stdout
    run.stdout.close()
    assert run.wait(300) == 0
    assert (runner.root / "reached").exists()
    assert "[finished]" in (runner.root / "var/log/provision/provisioning.log").read_text()


def test_a_node_that_is_nowhere_in_the_cluster_runs_no_step(runner: Runner) -> None:
    (runner.path / "resource_config.json").write_text('{"InstanceGroups": []}')
    runner.step("10-first", "echo never")
    done = runner.run()
    assert done.returncode == 1
    assert "[facts] resource config: 0 instances have one of this node's addresses" in done.stdout
    assert "FAILED: this node's place in the cluster is unknown" in done.stdout.splitlines()[-1]
    assert "never" not in done.stdout
    assert runner.state["status"] == "failed"


def test_both_entry_points_say_who_starts_slurm() -> None:
    for name, value in (("on_create.sh", "script"), ("on_init_complete.sh", "service")):
        assert f"export SLURM_STARTED_BY={value}\n" in (SCRIPTS / name).read_text()


def test_every_limit_is_of_a_step_that_there_is() -> None:
    source = (SCRIPTS / "run_steps.py").read_text()
    [limits] = re.findall(r"^LIMITS_SECONDS = \{(.*)\}$", source, re.MULTILINE)
    for name in re.findall(r'"([^"]+)"', limits):
        assert (SCRIPTS / "steps" / f"{name}.sh").exists(), name


def test_the_step_of_the_recipe_runs_between_its_neighbors(runner: Runner) -> None:
    ((path, content),) = blocks(page("lifecycle-step"), "Create").items()
    runner.step("50-before", "echo before")
    (runner.path / "scripts/steps" / Path(path).name).write_text(content)
    runner.step("60-after", "echo after")
    for said in ("shells know the node group train", "the profile is as it should be"):
        done = runner.run()
        assert done.returncode == 0, done.stdout
        assert f"[{Path(path).stem}] {said}" in done.stdout
        assert [step["name"] for step in runner.state["steps"]] == ["50-before", Path(path).stem, "60-after"]
    written = (runner.root / "etc/profile.d/node-group.sh").read_text()
    assert written == "export NODE_GROUP=train\n"
