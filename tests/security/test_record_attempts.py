"""Threat: a job or a member writes a record and a state, and colleagues list, watch, resume, copy, or stop runs.

Thousands of hostile records go through the commands on the machine of the member who launched the run and on that of a
colleague. The commands and the calls of AWS are compared with those of a genuine record.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches, unified_diff
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.launch.kubernetes.platforms import hand_off_of
from tests.launch.registry import launches
from tests.manifests.platforms import platform_of
from tests.people import ADMIN
from tests.report.conftest import RunDirectory
from tests.security.hostile_records import (
    CANARY,
    NAMES,
    SCRIPT,
    TARGETS,
    TEAM,
    Attempt,
    attempt,
    field_at,
    fields_of,
    genuine,
    genuine_state,
    paths,
)
from tests.security.two_homes import LOGIN, Programs, Said, make_homes, recording, run_at
from trainway.launch.registry.connections import registry_of
from trainway.launch.registry.find import launch_of
from trainway.launch.registry.record import UnreadableRecord, _Record, key_of, parse
from trainway.launch.registry.state import _State, parse_state, state_key_of
from trainway.launch.runs.names import is_run_name
from trainway.spec.deployed_file import deployed_file, deployed_file_name, written
from trainway.spec.handoff import Association, BuiltImage, HandOff, TrainingJobs
from trainway.spec.handoff_names import image_parameter_name, parameter_name
from trainway.spec.platform import Platform

REGION = "us-east-1"
SOUND = "sound"
GENUINE = "genuine"
# The run whose record somebody has replaced by one at a key that no run can have.
CHANGED = "changed"
ALL = (("status", "--all"), ("top", "--once"))
ONE = (("status",), ("logs",), ("explain",), ("resume",), ("stop",), ("copy",), ("report", "--no-open"))
# What a value of a handle may be in a command, whoever wrote it. The name of the run is that on the command line. The
# user of a session is the reader's own.
PATTERNS = {
    launches.SLURM["handle"]["arn"].rpartition("/")[2]: "[a-z0-9]{1,63}",
    launches.KUBERNETES["handle"]["context"]: r"[A-Za-z0-9_]\S*",
    f"/fsx/runs/{GENUINE}": rf"(?:/(?!\.\.?/)[A-Za-z0-9_.@+=-]+)*/{GENUINE}",
    "trainjobs.trainer.kubeflow.org": r"[a-z]+\.[a-z0-9.-]+",
    REGION: "[a-z]{2,}(?:-[a-z0-9]+)+",
    TEAM: "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?",
    "atlas": "[A-Za-z0-9][A-Za-z0-9-]{0,62}",
    64 * "0": "[0-9a-f]{64}",
    launches.SLURM["handle"]["job"]: "[0-9]{1,10}",
}
PLATFORMS = {"eks": "kubernetes", "hyperpod-eks": "kubernetes", "hyperpod-slurm": "slurm"}


class Laptops:
    """Two homes of members of a team, and the commands and files that genuine records cause in these homes."""

    def __init__(self, directory: Path, orchestrator: str, programs: Programs) -> None:
        self.directory, self.orchestrator, self.programs = directory, orchestrator, programs
        (directory / CANARY).mkdir()
        (directory / CANARY / "kept").write_text("as it was")
        platform = platform_of(
            name="atlas",
            region=REGION,
            zones=["use1-az4", "use1-az6"],
            orchestrator=orchestrator,
            node_groups=[{"name": "train", "instance_type": "p5.48xlarge", "count": 2, "max_count": 4}],
            teams=[{"name": TEAM, **({"users": [LOGIN]} if "slurm" in orchestrator else {})}],
            **({} if "slurm" in orchestrator else {"kubernetes": {"admins": [ADMIN]}}),
        )
        hand_off = self.hand_off_of(platform)
        self.registry = registry_of(hand_off)
        # The calls of another session are not kept.
        self.s3: Any = boto3.session.Session().client("s3", region_name=REGION)
        self.s3.create_bucket(Bucket=hand_off.bucket)
        for key in ("checkpoints/step-5/done", f"runs/code/{64 * '0'}.tar.gz"):
            self.s3.put_object(Bucket=hand_off.bucket, Key=key, Body=b"")
        ssm: Any = boto3.client("ssm", region_name=REGION)
        built = BuiltImage(uri=hand_off.image_uri, pinned=f"{hand_off.image_uri.rpartition(':')[0]}@sha256:{64 * '0'}")
        for name, value in {
            parameter_name(platform.name): hand_off.model_dump_json(),
            image_parameter_name(platform.name): built.model_dump_json(),
            deployed_file_name(platform.name): written(deployed_file(platform)) or "",
        }.items():
            ssm.put_parameter(Name=name, Type="String", Value=value)
        programs.context = programs.cluster = launches.KUBERNETES["handle"]["context"]
        self.homes = make_homes(directory)
        for home in self.homes:
            user = ("--user", LOGIN) if "slurm" in orchestrator else ()
            done = run_at(home, "connect", platform.name, "--region", REGION, *user)
            assert done.status == 0, done
        (directory / "metrics").mkdir()
        ran = RunDirectory(directory / "metrics").start().step(1).step(2)
        self.metrics = (ran.path / "metrics.jsonl").read_bytes()
        self.own = PLATFORMS[orchestrator]
        self.put(SOUND, json.dumps(genuine(SOUND, self.own)).encode())
        self.allowed = dict[re.Pattern[str], str]()
        self.known = set[str]()
        self.tree = self.files()
        self.learn()

    def hand_off_of(self, platform: Platform) -> HandOff:
        """Return the hand-off of the deployed platform, with the cluster of the genuine records and moto's network."""
        ec2: Any = boto3.client("ec2", region_name=REGION)
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20")["Subnet"]["SubnetId"]
        role = "arn:aws:iam::123456789012:role/jobs"
        jobs = TrainingJobs(role_arn=role, subnet_ids={"train": subnet}, security_group_ids=("sg-0",))
        found = hand_off_of(platform, training_jobs=jobs)
        service = "sagemaker" if platform.orchestrator.is_hyperpod else "eks"
        arn = launches.SLURM["handle"]["arn"].replace("sagemaker", service)
        assert found.file_system is not None
        mirrored = (Association(path="/runs", s3=f"s3://{found.bucket}/runs"),)
        changes: dict[str, Any] = {
            "cluster": found.cluster.model_copy(update={"arn": arn}),
            "file_system": found.file_system.model_copy(update={"associations": mirrored}),
        }
        return found.model_copy(update=changes)

    def put(self, run: str, body: bytes) -> None:
        """Write a record and the outputs of its run to the bucket."""
        self.s3.put_object(Bucket=self.registry.bucket, Key=key_of(TEAM, run), Body=body)
        self.s3.put_object(Bucket=self.registry.bucket, Key=f"runs/{run}/metrics.jsonl", Body=self.metrics)

    def learn(self) -> None:
        """Run the commands with genuine records of each target, and keep the started programs and the written files."""
        for target in TARGETS:
            for full in (False, True):
                body = json.dumps(genuine(GENUINE, target, full=full)).encode()
                found = dict(self.everything([GENUINE], [body], [json.dumps(genuine_state()).encode()]))
                assert all(said.fault is None for said in found.values()), found
        for text in {each.rstrip() for each in self.programs.started}:
            pattern = re.escape(text)
            for value, allowed in PATTERNS.items():
                pattern = pattern.replace(re.escape(value), allowed)
            self.allowed[re.compile(pattern, re.ASCII)] = text
        for key in (key_of(TEAM, GENUINE), state_key_of(TEAM, GENUINE)):
            self.s3.delete_object(Bucket=self.registry.bucket, Key=key)
        self.tree = self.files()

    def everything(
        self, runs: Sequence[str], bodies: Sequence[bytes], states: Sequence[bytes]
    ) -> Iterator[tuple[tuple[Any, ...], Said]]:
        """Write records and states, run each command in both homes, and yield the home, the words, and what was said.

        The first home has the directory of each run as its launch left it. The other one has none.
        """
        self.programs.training_jobs.clear()
        for home in self.homes:
            home.forget_runs()
        for run, body, state in zip(runs, bodies, states, strict=True):
            self.put(run, body)
            self.s3.put_object(Bucket=self.registry.bucket, Key=state_key_of(TEAM, run), Body=state)
            launched = self.launched(run)
            self.homes[0].keep(launched, launch_of(launched, self.registry))
        for index, home in enumerate(self.homes):
            for words in ALL:
                yield (index, *words), run_at(home, *words)
            for run in runs:
                for command, *options in ONE:
                    self.programs.has_ended = command == "resume"
                    yield (index, command, run, *options), run_at(home, command, run, *options)
                    self.programs.has_ended = False
                    if command == "resume":
                        # A resume has written a genuine record.
                        self.put(run, bodies[runs.index(run)])

    def launched(self, run: str) -> Any:
        """Return the record that the run's launch had written before somebody changed it."""
        name = run if is_run_name(run) else CHANGED
        return parse(json.dumps(genuine(name, self.own)), key_of(TEAM, name))

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Return the mode and the content of each file of the homes outside of the directories of runs."""
        found = {}
        for path in self.directory.rglob("*"):
            name = path.relative_to(self.directory)
            if name.parts[1:3] != ("work", "runs"):
                found[str(name)] = (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        return found

    def faults(self, attempts: Sequence[Attempt]) -> list[str]:
        """Return the faults of the commands that read the records of some attempts."""
        self.programs.started.clear()
        runs = [each.run for each in attempts]
        found = []
        states = [each.state for each in attempts]
        for words, said in self.everything(runs, [each.body for each in attempts], states):
            if said.fault is not None:
                found.append(f"{words}: {type(said.fault).__name__}: {str(said.fault)[:200]!r}")
            if not said.text.replace("\n", "").isprintable():
                found.append(f"{words}: printed {ascii(said.text)[:300]}")
            if words[1:] == ALL[0]:
                found += [f"{words}: {each}" for each in self.unlisted(said, attempts)]
        for text in {_of_genuine_run(each, runs) for each in self.programs.started} - self.known:
            if any(each.fullmatch(text) for each in self.allowed):
                self.known.add(text)
            else:
                (nearest,) = get_close_matches(text, self.allowed.values(), n=1, cutoff=0)
                changed = unified_diff(nearest.splitlines(), text.splitlines(), n=0, lineterm="")
                found.append(f"started {ascii(text)[:300]}: {ascii(list(changed))[:1000]}")
        if (now := self.files()) != self.tree:
            found.append(f"wrote {sorted({name for name, _ in set(now.items()) ^ set(self.tree.items())})}")
        for home in self.homes:
            kept = home.work / "runs"
            outside = {each.name for each in kept.iterdir()} - {*runs, CHANGED} if kept.is_dir() else ()
            found += [f"wrote runs/{each}" for each in outside]
        found += [
            f"wrote a script to {page}" for page in self.directory.rglob("report.html") if SCRIPT in page.read_text()
        ]
        for each in attempts:
            for key in (each.key, each.state_key):
                self.s3.delete_object(Bucket=self.registry.bucket, Key=key)
        return found

    def unlisted(self, said: Said, attempts: Sequence[Attempt]) -> Iterator[str]:
        """Yield each run of a listing that does not have exactly one line. A run without a launch has no line."""
        lines = Counter(line.partition("  ")[0].strip() for line in said.out.splitlines())
        if said.status or lines[SOUND] != 1:
            yield f"the genuine run is hidden: {said.text[-300:]!r}"
        for each in attempts:
            name = UnreadableRecord(each.key, "").run
            waits = False
            with contextlib.suppress(ValueError):
                waits = parse(each.body.decode(), each.key).launch is None
            if lines[name] != (0 if waits else 1):
                yield f"{name} has {lines[name]} lines"


def _of_genuine_run(text: str, runs: Sequence[str]) -> str:
    """Return the started programs with the name of the genuine run in place of the names on the command line."""
    for name in NAMES:
        # Whoever lists the records reads each key, whatever its name is.
        text = text.replace(f"{json.dumps(name)[1:-1]}.json", f"{GENUINE}.json")
    names = "|".join(map(re.escape, runs))
    return re.sub(rf"(?<![A-Za-z0-9-])(?:{names})(?![A-Za-z0-9])", GENUINE, text).rstrip()


# Runs of both orchestrators of Kubernetes have the same target, whose commands read the records.
@pytest.fixture(
    scope="module",
    params=[pytest.param("eks", marks=pytest.mark.exhaustive), "hyperpod-eks", "hyperpod-slurm"],
)
def laptops(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptops]:
    from moto import mock_aws

    programs = Programs()
    with mock_aws():
        directory = tmp_path_factory.mktemp(request.param)
        temporary = tmp_path_factory.mktemp("temporary")
        with recording(programs, temporary):
            yield Laptops(directory, request.param, programs)
        assert list(temporary.iterdir()) == []


def test_every_field_of_a_record_is_attempted() -> None:
    for target in TARGETS:
        stated = {".".join(each for each in path if isinstance(each, str)) for path in paths(genuine("a", target))}
        assert set(fields_of(_Record)) <= stated, "a new field needs a value in genuine()"
        parse(json.dumps(genuine("a", target)), key_of(TEAM, "a"))
    tried = [attempt(number) for number in range(3000)]
    for name, launch in TARGETS.items():
        changed = frozenset[str]().union(*(each.changed for each in tried if each.target == name))
        assert {*fields_of(_Record), *(f"launch.handle.{key}" for key in launch["handle"])} <= changed


def test_every_field_of_a_state_is_attempted() -> None:
    stated = genuine_state()
    assert set(fields_of(_State)) <= {field_at(path) for path in paths(stated)}, "a new field needs a value"
    assert parse_state(json.dumps(stated)).stragglers == stated["stragglers"]
    changed = frozenset[str]().union(*(attempt(number).changed_of_state for number in range(3000)))
    assert {"schema_version", *fields_of(_State)} <= changed


@pytest.mark.parametrize("count", [2, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_no_command_does_what_a_hostile_record_says(laptops: Laptops, count: int) -> None:
    begin = count * list(PLATFORMS).index(laptops.orchestrator)
    found = []
    for first in range(begin, begin + count, 10):
        numbers = range(first, min(first + 10, begin + count))
        chosen = [attempt(number, (*[laptops.own] * 3, "sagemaker")) for number in numbers]
        faults = laptops.faults(list({each.run: each for each in chosen}.values()))
        found += [f"attempts {numbers.start} to {numbers.stop - 1}: {each}" for each in faults]
    assert found == [], "\n".join(found[:40])
