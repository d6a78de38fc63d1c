"""Two people, two empty homes, one platform: whoever is of the team finds, follows, and stops a run by its name.

The bucket and the hand-off are in the emulated AWS, and the run is on a real Slurm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import boto3
import pytest
import yaml

from emulator import Emulator, running
from tests.command_line import Completed, run_trainway
from tests.launch.conftest import make_hand_off
from tests.launch.slurm.machines import Machines, machines, missing
from tests.launch.slurm.requests import on_slurm
from tests.launch.slurm.test_three_commands import deployed, relays, with_aws_on_nodes
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.synthesis import ROOT
from trainway.launch.registry.connections import registry_of
from trainway.launch.registry.record import key_of
from trainway.spec.loader import load_platform

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
PLATFORM_FILE = ROOT / "examples" / "hyperpod-slurm-p5en.yaml"
PLATFORM = load_platform(PLATFORM_FILE)
# The nodes of the tests have no GPU, and the platform's groups do not matter here.
LAUNCH = ("launch", "job.yaml", "--target", "slurm", "--platform", str(PLATFORM_FILE), "--environment", sys.prefix)
JOB = {
    "name": "nightly",
    "run": {
        "script": "for step in 1 2 3; do echo working: step=$step/9; sleep 1; done; exec sleep 300",
        "stop": {"grace": 5},
        "metrics": {"step": r"step=(\d+)", "steps": r"step=\d+/(\d+)"},
    },
}
At = Callable[..., Completed]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(["n1", "n2"]) as started:
        yield started


@pytest.fixture(scope="module")
def emulator(cluster: Machines) -> Iterator[Emulator]:
    with running(region=PLATFORM.region) as started:
        deployed(started, PLATFORM_FILE, str(cluster.shared))
        with relays(cluster, started.endpoint):
            with_aws_on_nodes(cluster, started, "TRAINWAY_STATE_SECONDS=0.5")
            yield started


def environment_of(home: Path, cluster: Machines, emulator: Emulator) -> dict[str, str]:
    """Return the environment of a person at a laptop. The person has the name of the home directory."""
    environment = {
        **emulator.child_environment(),
        "HOME": str(home),
        "PATH": f"{cluster.commands}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "LOGNAME": home.name,
        "TRAINWAY_EVALUATE_SECONDS": "0.5",
        "TRAINWAY_SUBMIT_SECONDS": "20",
    }
    environment.pop("XDG_CONFIG_HOME", None)
    return environment


def started(
    home: Path, cluster: Machines, emulator: Emulator, *words: str, output: IO[str] | int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start `trainway` as a process of a person at a laptop."""
    command = [sys.executable, "-m", "trainway.cli", *words]
    environment = environment_of(home, cluster, emulator)
    return subprocess.Popen(command, cwd=home, env=environment, stdout=output, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def at(cluster: Machines, emulator: Emulator, tmp_path: Path) -> At:
    """Runs `trainway` as a person in a directory of their own, with nothing of anybody else's."""

    def run(person: str, *words: str) -> Completed:
        home = tmp_path / person
        home.mkdir(exist_ok=True)
        (home / "job.yaml").write_text(yaml.safe_dump(JOB))
        return run_trainway(*words, directory=home, environment=environment_of(home, cluster, emulator))

    return run


def succeeded(done: Completed) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def launched(at: At, person: str, *words: str) -> str:
    return succeeded(at(person, *LAUNCH, *words)).split()[-1]


def test_a_colleague_finds_follows_explains_and_stops_a_run(at: At) -> None:
    run = launched(at, "ada")
    unknown = at("linus", "status", run)
    assert unknown.returncode == 2 and "nothing was launched from this directory" in unknown.stderr

    said = succeeded(at("linus", "connect", PLATFORM.name, "--region", PLATFORM.region))
    assert f"connected to {PLATFORM.name} in {PLATFORM.region}" in said
    [row] = [each for each in json.loads(succeeded(at("linus", "status", "--all", "--json"))) if each["run"] == run]
    assert (row["target"], row["attempts"], bool(row["owner"])) == ("slurm", 1, True)
    wait_for("it works", lambda: "working" in at("linus", "logs", run).stdout)
    assert "running" in succeeded(at("linus", "status", run))

    def told() -> dict[str, Any]:
        [only] = json.loads(succeeded(at("linus", "status", run, "--json")))
        return dict(only)

    wait_for("its steps are told", lambda: bool(told()["step"] == "3/9" and told()["seconds_left"]))
    assert told()["starts"] == 1
    succeeded(at("linus", "stop", run))
    wait_for("it has stopped", lambda: "stopped" in at("ada", "status", run).stdout)
    # Slurm forgets its jobs, and the job's files may be out of reach. The state in the bucket stays.
    assert [told()["phase"], told()["step"], told()["seconds_left"]] == ["stopped", "3/9", None]
    assert "has ended: it is stopped" in at("linus", "stop", run).stderr
    assert "nothing that was gathered tells of a failure" in succeeded(at("linus", "explain", run))


def test_a_name_is_that_of_one_run_and_of_what_was_taken(at: At, emulator: Emulator, tmp_path: Path) -> None:
    assert launched(at, "ada", "--run", "nightly") == "nightly"
    taken = at("linus", *LAUNCH, "--run", "nightly")
    assert taken.returncode == 2 and "the run cannot be called nightly" in taken.stderr
    assert "`trainway resume nightly` continues that run" in taken.stderr
    succeeded(at("ada", "stop", "nightly"))
    # A launch that Slurm refuses leaves nothing.
    refused = at("ada", *LAUNCH, "--run", "refused", "--exclude", "n7")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr, refused.stderr
    assert not (tmp_path / "ada" / "runs" / "refused").exists()
    s3 = boto3.client(
        "s3",
        endpoint_url=emulator.endpoint,
        region_name=PLATFORM.region,
        aws_access_key_id="emulator",
        aws_secret_access_key="emulator",
    )
    keys = {
        each["Key"]
        for bucket in s3.list_buckets()["Buckets"]
        for each in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ())
    }
    assert key_of(None, "nightly") in keys and key_of(None, "refused") not in keys


# A descent whose loss depends on the code. After step 3 it waits for a file.
DESCENT = """\
import json, os, pathlib, time
from rate import RATE
state = pathlib.Path(os.environ["TRAINWAY_OUTPUT"], "state.json")
step, weight = json.loads(state.read_text()) if state.exists() else (0, 0.0)
while step < 6:
    step, weight = step + 1, weight + RATE * (3 - weight)
    state.with_suffix(".new").write_text(json.dumps([step, weight]))
    state.with_suffix(".new").replace(state)
    print(f"step={step} loss={(3 - weight) ** 2!r}", flush=True)
    while step == 3 and not pathlib.Path("SHARED/go").exists():
        time.sleep(0.1)
"""


def descent(rate: float, first: int, weight: float = 0.0) -> list[str]:
    """Return the lines of steps of the descent from step `first` to the last."""
    lines = []
    for step in range(1, 7):
        weight += rate * (3 - weight)
        lines.append(f"step={step} loss={(3 - weight) ** 2!r}")
    return lines[first - 1 :]


# Each step has a test: tests/launch/test_code.py has the archives, and test_any_program.py a run that resumes.
@pytest.mark.exhaustive
def test_a_colleague_resumes_the_code_that_ran_or_names_another(at: At, cluster: Machines, tmp_path: Path) -> None:
    assert at("ada", "--version").returncode == 0
    code = tmp_path / "ada" / "code"
    code.mkdir()
    (code / "train.py").write_text(DESCENT.replace("SHARED", str(cluster.shared)))
    (code / "rate.py").write_text("RATE = 0.5\n")
    job = {"name": "descent", "run": {"command": ["python3", "train.py"], "code": "code", "stop": {"grace": 5}}}
    (tmp_path / "ada" / "descent.yaml").write_text(yaml.safe_dump(job))
    succeeded(at("ada", "launch", "descent.yaml", *LAUNCH[2:], "--run", "descent", "--allow-tcp"))

    def told(key: str) -> Any:
        run = tmp_path / "linus" / "runs" / "descent"
        return json.loads((run / "launch.json").read_text())["options"].get(key)

    def steps() -> list[str]:
        said = succeeded(at("linus", "logs", "descent"))
        return [line.partition("] ")[2] for line in said.splitlines() if "step=" in line]

    succeeded(at("linus", "connect", PLATFORM.name, "--region", PLATFORM.region))
    wait_for("it waits after step 3", lambda: any("step=3 " in each for each in steps()))
    digest = told("code_digest")
    succeeded(at("linus", "stop", "descent"))
    wait_for("it has stopped", lambda: "stopped" in at("ada", "status", "descent").stdout)
    # The directory that Ada launched from has other code now.
    (code / "rate.py").write_text("RATE = 0.9\n")
    (cluster.shared / "go").touch()
    succeeded(at("linus", "resume", "descent"))
    wait_for("it has ended", lambda: "succeeded" in at("linus", "status", "descent").stdout)
    assert steps()[-3:] == descent(0.5, 4)
    assert told("code_digest") == digest and told("code_changes") is None
    assert told("allow_tcp") is True, "a resumed run has the options of its launch"

    other = tmp_path / "linus" / "other"
    other.mkdir()
    (other / "train.py").write_text((code / "train.py").read_text().replace("step < 6", "step < 7"))
    (other / "rate.py").write_text("RATE = 0.5\n")
    succeeded(at("linus", "resume", "descent", "--code", "other"))
    wait_for("it has ended", lambda: any("step=7 " in each for each in steps()))
    (change,) = told("code_changes")
    assert (change["before"], change["files"], change["more_files"]) == (digest, ["train.py"], 0)
    assert change["after"] == told("code_digest") != digest


# The program saves three checkpoints, and begins a fourth that it never completes. The evaluation of step 4 fails.
SAVES = """\
for step in 2 4 6; do
  mkdir -p $TRAINWAY_OUTPUT/checkpoint-$step $TRAINWAY_OUTPUT/checkpoint-5
  touch $TRAINWAY_OUTPUT/checkpoint-$step/complete
done
until test -e {shared}/released; do sleep 0.2; done
"""
EVALUATES = """\
test -e $TRAINWAY_CHECKPOINT/complete && echo $TRAINWAY_CHECKPOINT_STEP >>{shared}/evaluated
test $TRAINWAY_CHECKPOINT_STEP != 4
"""


@pytest.mark.exhaustive
def test_a_colleague_continues_the_evaluations_of_a_run_without_gap_or_duplicate(
    at: At, cluster: Machines, emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert at("ada", "--version").returncode == at("linus", "--version").returncode == 0
    options = {"slurm": {"environment": sys.prefix}}
    evaluation = {"name": "evaluate", "run": {"script": EVALUATES.format(shared=cluster.shared)}, **options}
    section = {"job": evaluation, "marker": "checkpoint-{step}/complete"}
    job = {"name": "sft", "run": {"script": SAVES.format(shared=cluster.shared)}, "on_checkpoint": section}
    (tmp_path / "ada" / "sft.yaml").write_text(yaml.safe_dump(job))
    launch = ["launch", "sft.yaml", *LAUNCH[2:], "--run", "sft"]
    log = tmp_path / "ada.log"

    def follower(person: str) -> subprocess.Popen[str]:
        return started(tmp_path / person, cluster, emulator, "evaluate", "sft", output=log.open("a"))

    done = at("ada", *launch)
    assert done.returncode == 0 and "`trainway evaluate sft` launches the evaluations" in done.stderr, done.stderr
    first = follower("ada")
    wait_for("the first evaluation ends", lambda: "step 2: sft-step-2 is succeeded" in log.read_text())
    first.kill()
    first.wait()

    # This is the state after `trainway evaluate` was killed when Slurm had the evaluation of step 2, but not of step 6.
    registry = registry_of(on_slurm(make_hand_off()).model_copy(update={"region": PLATFORM.region, "teams": ()}))
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    record = registry.read("sft-step-2")
    assert record is not None and record.launch is not None
    old = "2026-01-01T00:00:00+00:00"
    registry.write(replace(record, launch=None, started=old))
    if registry.read("sft-step-6") is None:
        registry.reserve(replace(record, run="sft-step-6", launch=None, started=old))

    succeeded(at("linus", "connect", PLATFORM.name, "--region", PLATFORM.region))
    second = follower("linus")
    try:
        wait_for("the others end", lambda: len((cluster.shared / "evaluated").read_text().split()) == 3)
        (cluster.shared / "released").touch()
        assert second.wait(300) == 1, "the evaluation of step 4 has failed"
    finally:
        second.kill()
    assert sorted((cluster.shared / "evaluated").read_text().split()) == ["2", "4", "6"], log.read_text()
    assert "evaluation of step 4: sft-step-4 is failed: failed: bash ended with exit status 1" in log.read_text()
    [row] = json.loads(succeeded(at("linus", "status", "sft", "--json")))
    assert row["phase"] == "succeeded"
    assert [(each["step"], each["phase"]) for each in row["evaluations"]] == [
        (2, "succeeded"),
        (4, "failed"),
        (6, "succeeded"),
    ]


@pytest.mark.exhaustive
def test_ten_launches_at_once_are_ten_runs(at: At, cluster: Machines, emulator: Emulator, tmp_path: Path) -> None:
    people = [f"person-{number}" for number in range(10)]
    for person in people:
        assert at(person, "--version").returncode == 0
    launches = [started(tmp_path / person, cluster, emulator, *LAUNCH) for person in people]
    said = [launch.communicate(timeout=1800) for launch in launches]
    assert [launch.returncode for launch in launches] == [0] * len(people), said
    names = [output.split()[-1] for output, _ in said]
    assert len(set(names)) == len(people), names
    assert all((tmp_path / person / "runs" / name).is_dir() for person, name in zip(people, names, strict=True))
    succeeded(at("ada", "connect", PLATFORM.name, "--region", PLATFORM.region))
    assert {each["run"] for each in json.loads(succeeded(at("ada", "status", "--all", "--json")))} >= set(names)
    for person, name in zip(people, names, strict=True):
        succeeded(at(person, "stop", name))
