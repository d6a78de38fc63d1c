"""A record that another person or a job wrote cannot harm a person who lists, watches, or stops runs.

A job of a team can write the records of its team: its role may write below the team's prefix.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import running
from tests.command_line import Completed, run_trainway
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.registry import launches
from tests.launch.slurm.sessions import without_slurm
from tests.launch.test_commands import SLURM, deploy
from tests.security.hostile_records import CANARY, TEAM, attempt
from trainway.launch.kubernetes.context import eks_arn
from trainway.launch.registry.connections import registry_of
from trainway.launch.registry.find import launch_of
from trainway.launch.registry.record import SCHEMA_VERSION, key_of, parse
from trainway.launch.registry.state import parse_state, state_key_of
from trainway.launch.target.known import target_named
from trainway.spec.deployed_file import deployed_file, deployed_file_name, written
from trainway.spec.errors import UsageError

GOOD = "sound"
# Texts that are not the JSON object of a record.
TEXTS = (
    "",
    "no JSON",
    "[]",
    "[" * 200_000,
    '{"a":' * 200_000,
    '{"schema_version": 2}',
    '{"schema_version": 1}',
    "\ufeff{}",
    "NaN",
)


def sound(run: str, launch: dict[str, Any] = launches.SLURM) -> dict[str, Any]:
    """Return the record of a run, as a launch writes it."""
    options = {
        **launch["options"],
        "group": None,
        "code": "/home/ada/work",
        "code_version": {"commit": "0" * 40, "dirty": False},
        "code_digest": "0" * 64,
        "code_changes": [{"at": launch["started"], "before": None, "after": "0" * 64, "files": ["train.py"]}],
        "image": None,
        "evaluation_directory": "/home/ada/work",
        "evaluation_code_digest": "0" * 64,
        "target": {},
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "run": run,
        "team": TEAM,
        "owner": "ada",
        "started": launch["started"],
        "files": {"job.yaml": "name: nightly\ncommand: [python, train.py]\n"},
        "launch": launches.of_run(launch, run) | {"options": options},
        "attempts": 1,
    }


@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.exhaustive)])
def test_only_what_a_launch_writes_is_read(count: int) -> None:
    read = 0
    for each in map(attempt, range(count)):
        try:
            record = parse(each.body.decode(), each.key)
        except ValueError as refused:
            # That of bytes that are no text is Python's, and the registry says so instead.
            assert isinstance(refused, UnicodeDecodeError) or str(refused).isprintable()
            assert CANARY not in str(refused)
            continue
        read += 1
        assert record.run == each.run and record.team == TEAM
        # A home keeps the record as files.
        json.dumps(record.launch).encode()
        assert all(text.encode() is not None for text in record.files.values())
        assert record.owner.isprintable()
        assert not any("/" in name or name.startswith(".") for name in record.files)
        # A reader has some values from the platform, and not from the record: test_a_record_chooses_no_cluster.
        launch = record.launch or {"handle": {}, "target": "local"}
        decided: tuple[str, ...] = ()
        with suppress(UsageError):  # no command asks an unknown target
            decided = target_named(launch["target"]).decided
        handle = {key: value for key, value in launch["handle"].items() if key not in decided}
        assert not any(set(value) & set("'\"`$;|&<>\\ \n*?{}!#") or value.startswith("-") for value in handle.values())
        assert handle.get("user") != "root"
        assert handle.get("job", "0").isdecimal()
    # Options can be any JSON.
    assert read < count / 2


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_text_that_is_no_record_or_no_state_is_a_value_error(text: str) -> None:
    for read in (lambda: parse(text, key_of(TEAM, GOOD)), lambda: parse_state(text)):
        with pytest.raises(ValueError):
            read()


def test_the_words_of_a_run_are_one_line_without_escape_sequences() -> None:
    state = {"schema_version": 1, "state": "failed", "attempt": 1, "started": 1.0, "written": 2.0}
    told = "\x1b]0;told\x07 one\ntwo"
    words = {"reason": told, "stragglers": told}
    checkpoint = {"step": 5, "location": told, "time": 1.0}
    found = parse_state(json.dumps(state | words | {"checkpoint": checkpoint}))
    assert found.checkpoint is not None
    for each in (found.reason, found.stragglers, found.checkpoint["location"]):
        assert each == "\N{REPLACEMENT CHARACTER}]0;told\N{REPLACEMENT CHARACTER} one two"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the environment of a member who has connected to the platform.

    The machine has the commands of Slurm and of Kubernetes, which know no job.
    """
    home, commands = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("commands")
    for name in ("sbatch", "squeue", "sacct", "scontrol", "scancel", "srun", "kubectl"):
        (commands / name).write_text("#!/bin/sh\nexit 0\n")
        (commands / name).chmod(stat.S_IRWXU)
    with running(region=SLURM.region) as emulator, pytest.MonkeyPatch.context() as patch:
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        deploy(SLURM)
        boto3.client("ssm", region_name=SLURM.region).put_parameter(
            Name=deployed_file_name(SLURM.name), Type="String", Value=written(deployed_file(SLURM)) or ""
        )
        told = {**emulator.child_environment(), "HOME": str(home), "PATH": f"{commands}:{os.environ['PATH']}"}
        told.pop("XDG_CONFIG_HOME", None)
        done = run_trainway("connect", SLURM.name, "--region", SLURM.region, directory=home, environment=told)
        assert done.returncode == 0, done.stderr
        yield told


Write = Callable[[str, str | bytes], None]


@pytest.fixture
def write(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Return a function that writes an object at the key of a run's record, as a job of the team can."""
    for name, value in environment.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    s3 = boto3.client("s3", region_name=SLURM.region)
    bucket, written = hand_off_of(SLURM).bucket, list[str]()

    def put(key: str, text: str | bytes) -> None:
        s3.put_object(Bucket=bucket, Key=key, Body=text)
        written.append(key)

    put(key_of(TEAM, GOOD), json.dumps(sound(GOOD)))
    yield put
    for key in written:
        s3.delete_object(Bucket=bucket, Key=key)


@pytest.fixture
def trainway(environment: dict[str, str], tmp_path: Path) -> Callable[..., Completed]:
    """Return a function that runs a command of the member and checks that no hostile value had an effect."""
    directory = tmp_path / "colleague" / "project"
    directory.mkdir(parents=True)

    def run(*words: str) -> Completed:
        done = run_trainway(*words, directory=directory, environment=environment)
        said = done.stdout + done.stderr
        assert "Traceback" not in said, said
        assert said.replace("\n", "").isprintable(), ascii(said)
        assert not [each for each in tmp_path.rglob("*") if CANARY in each.name]
        assert {each.name for each in directory.iterdir()} <= {"runs"}
        return done

    return run


def test_unreadable_records_are_lines_among_the_others(write: Write, trainway: Callable[..., Completed]) -> None:
    runs = [f"text-{number}" for number in range(len(TEXTS))]
    for run, text in zip(runs, TEXTS, strict=True):
        write(key_of(TEAM, run), text)
        write(state_key_of(TEAM, run), text)
    write(key_of(TEAM, "\x1b[2Jname"), "{}")
    write(key_of(TEAM, "another"), json.dumps(sound("other")))
    done = trainway("status", "--all", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["run"]: row for row in json.loads(done.stdout)}
    assert rows[GOOD]["target"] == "slurm"
    assert {run for run, row in rows.items() if row["phase"] == "unreadable record"} == {
        *runs,
        "another",
        "\N{REPLACEMENT CHARACTER}[2Jname",
    }
    assert rows["another"]["reason"] == "it names another run than its key"
    table = trainway("status", "--all")
    assert table.returncode == 0 and f"\n{GOOD} " in f"\n{table.stdout}"


COMMANDS = (("status",), ("logs",), ("explain",), ("stop",), ("resume",), ("report", "--no-open"), ("copy",))


@pytest.mark.parametrize("count", [2, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_no_command_does_what_a_record_says(count: int, write: Write, trainway: Callable[..., Completed]) -> None:
    """Run real processes. tests/security/test_record_attempts.py tries more records in one process."""
    attempts = [attempt(number, ("slurm", "kubernetes")) for number in range(5000, 5000 + count)]
    runs = {each.run for each in attempts}
    for each in attempts:
        write(each.key, each.body)
    listed = trainway("status", "--all", "--json")
    assert listed.returncode == 0, listed.stderr
    assert GOOD in {row["run"] for row in json.loads(listed.stdout)}
    assert trainway("top", "--once").returncode in (0, 2)
    for run in runs:
        for command in COMMANDS:
            trainway(command[0], run, *command[1:])


@pytest.mark.parametrize(
    "launch", [launches.SLURM, launches.KUBERNETES, launches.SAGEMAKER], ids=["slurm", "kubernetes", "sagemaker"]
)
def test_a_record_names_no_job_of_another_run(launch: dict[str, Any], write: Write, trainway: Any) -> None:
    """Whoever stops the run would stop the other job."""
    record = sound("planted", launch)
    record["launch"]["handle"] = sound("another", launch)["launch"]["handle"]
    write(key_of(TEAM, "planted"), json.dumps(record))
    assert "is of another run" in trainway("stop", "planted").stderr


@pytest.mark.parametrize(
    ("run", "job", "is_its_own"),
    [
        ("nightly", "nightly", True),
        ("nightly", "nightly-start-2", True),
        ("nightly-start-2", "nightly-start-2", True),
        ("nightly-start-2", "nightly-start-2-start-3", True),
        ("nightly-start-2", "nightly", False),
        ("nightly", "nightly-2", False),
        ("nightly", "another-start-2", False),
    ],
)
def test_a_training_job_has_the_name_of_its_run(run: str, job: str, is_its_own: bool) -> None:
    record = sound(run, launches.SAGEMAKER)
    record["launch"]["handle"]["name"] = job
    if is_its_own:
        assert parse(json.dumps(record), key_of(TEAM, run)).run == run
        return
    with pytest.raises(ValueError, match="its name is of another run"):
        parse(json.dumps(record), key_of(TEAM, run))


@pytest.mark.parametrize(
    "text", ["root", "../ada", "s3:checkpoints", "gs://a/step-5", "/fsx/../root/step-5", "fsx:/../a"]
)
def test_an_evaluated_checkpoint_is_a_location(text: str) -> None:
    """A job gets the location as an environment variable."""
    record = sound("planted")
    for location in ("s3:/checkpoints/step-5", "s3://bucket/step-5", "fsx:/runs/a/outputs/step-5", "/home/ada/step-5"):
        record["launch"]["options"]["evaluation"] = {"run": "nightly", "step": 5, "checkpoint": location}
        parse(json.dumps(record), key_of(TEAM, "planted"))
    record["launch"]["options"]["evaluation"]["checkpoint"] = text
    with pytest.raises(ValueError, match="it is no location"):
        parse(json.dumps(record), key_of(TEAM, "planted"))


def _nested(depth: int) -> Any:
    return {"a": _nested(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("files", "job.yaml"), "name: \ud800", "UTF-8 cannot encode"),
        (("launch", "options", "code_version", "commit"), ["\ud800"], "UTF-8 cannot encode"),
        (("launch", "options", "target", "wait"), float("inf"), "no finite number"),
        (("launch", "options", "target", "wait"), _nested(200), "nested too deeply"),
        (("started",), "0001-01-01T00:00:00+23:59", "no time that UTC has"),
        (("launch", "started"), "9999-12-31T23:59:59-23:59", "no time that UTC has"),
        (("launch", "options", "evaluation"), None, "it is null"),
        (("launch", "started"), "2026-11-24\x1b10:00:00+00:00", "does not show"),
    ],
    ids=[
        "text",
        "text in a list",
        "infinity",
        "depth",
        "before the year 1",
        "after the year 9999",
        "null",
        "separator",
    ],
)
def test_a_record_with_a_value_that_no_file_or_clock_has_is_unreadable(
    path: tuple[str, ...], value: Any, why: str, write: Write, trainway: Callable[..., Completed]
) -> None:
    """Refuse values that would end a command with a traceback, or that a command would print."""
    record = sound("planted")
    inner: Any = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    write(key_of(TEAM, "planted"), json.dumps(record))
    for command in (("status", "planted"), ("copy", "planted")):
        done = trainway(*command)
        assert done.returncode == 2 and "the record of the run planted is unreadable" in done.stderr, done.stderr
        assert why in done.stderr, done.stderr


def test_a_record_without_the_options_of_its_target_is_not_resumed(write: Write, trainway: Any) -> None:
    record = sound("planted")
    del record["launch"]["options"]["target"]
    write(key_of(TEAM, "planted"), json.dumps(record))
    done = trainway("resume", "planted")
    assert done.returncode == 2 and "launch.options.target: Field required" in done.stderr, done.stderr


def test_a_record_of_this_machine_kills_no_process(write: Write, trainway: Callable[..., Completed]) -> None:
    with_process = sound("mine")
    with_process["launch"] |= {
        "target": "local",
        "handle": {"run": "/tmp", "pid": str(os.getpid()), "started_at": "1"},
    }
    write(key_of(TEAM, "mine"), json.dumps(with_process))
    done = trainway("stop", "mine")
    assert done.returncode == 2
    assert all(each in done.stderr for each in ("the record of the run mine is unreadable", "local runs no jobs"))


def test_a_record_chooses_no_user_of_the_cluster(write: Write, environment: dict[str, str], tmp_path: Path) -> None:
    record = sound("planted")
    record["launch"]["handle"] |= {"user": "grace", "arn": hand_off_of(SLURM).cluster.arn}
    write(key_of(TEAM, "planted"), json.dumps(record))
    # A laptop without Slurm, whose command line of AWS notes what it is asked.
    said, programs = tmp_path / "said", without_slurm(tmp_path, user="ada")
    (programs / "aws").write_text(f'#!/bin/sh\necho "$@" >>{said}\n')
    laptop = {**environment, "PATH": str(programs), "XDG_CONFIG_HOME": str(tmp_path / "configuration")}

    def at(*words: str) -> str:
        return run_trainway(*words, directory=tmp_path, environment=laptop).stderr

    at("connect", SLURM.name, "--region", SLURM.region)
    for command in ("stop", "shell", "resume"):
        assert "your login name on slurm is not known, and the run is of the user grace" in at(command, "planted")
    at("connect", SLURM.name, "--region", SLURM.region, "--user", "ada")
    for command in ("stop", "shell", "resume"):
        assert "your login name" not in at(command, "planted")
    assert "grace" not in (said.read_text() if said.exists() else "")


OTHER = {"cluster": "other", "arn": "arn:aws:sagemaker:eu-west-1:123456789012:cluster/other", "region": "eu-west-1"}


def test_a_record_chooses_no_cluster(
    write: Write, trainway: Callable[..., Completed], environment: dict[str, str], tmp_path: Path
) -> None:
    def planted(**handle: str) -> None:
        record = sound("planted")
        record["launch"]["handle"] |= {"user": "ubuntu", **handle}
        write(key_of(TEAM, "planted"), json.dumps(record))

    programs = without_slurm(tmp_path, user="ada")
    planted(**OTHER)
    laptop = {**environment, "PATH": str(programs), "XDG_CONFIG_HOME": str(tmp_path / "configuration")}
    for words in (("connect", SLURM.name, "--region", SLURM.region), ("stop", "planted")):
        done = run_trainway(*words, directory=tmp_path, environment=laptop)
    # The emulated account has no cluster at all.
    assert done.stderr.startswith(f"the nodes of {SLURM.name} in {SLURM.region} cannot be listed"), done.stderr
    # A run that this machine knows has another handle after a resume.
    launch = tmp_path / "colleague" / "project" / "runs" / "planted" / "launch.json"
    trainway("status", "planted")
    before = json.loads(launch.read_text())["handle"]
    planted(**OTHER, job="18")
    trainway("status", "planted")
    assert json.loads(launch.read_text())["handle"] == before | {"job": "18"}
    assert not before.items() & OTHER.items()


def test_a_record_chooses_no_context_and_no_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hand_off = hand_off_of(platform_named("kueue"))
    contexts = {"production": "arn:aws:eks:us-west-2:111122223333:cluster/production", "mine": eks_arn(hand_off)}
    config = {
        "current-context": "production",
        "contexts": [{"name": name, "context": {"cluster": arn}} for name, arn in contexts.items()],
    }
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(config)}\nEND\n")
    (tmp_path / "kubectl").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    record = sound("planted", launches.KUBERNETES)
    record["launch"]["handle"] |= {"context": "production", "namespace": "kube-system"}
    read = parse(json.dumps(record), key_of(TEAM, "planted"))
    handle = launch_of(read, registry_of(hand_off))["handle"]
    assert handle == record["launch"]["handle"] | {"context": "mine", "namespace": TEAM}
    # Without a context for the cluster, kubectl is asked for one that it does not have.
    (tmp_path / "kubectl").write_text("#!/bin/sh\nexit 1\n")
    assert launch_of(read, registry_of(hand_off))["handle"]["context"] == eks_arn(hand_off)


REQUIREMENT = "hidden==1.0 --hash=sha256:" + "0" * 64
PROGRAM = "run:\n  command: [python, train.py]\n"
EVALUATED = (
    f"name: nightly\nteam: {TEAM}\n{PROGRAM}on_checkpoint:\n  marker: s3:/checkpoints/step-{{step}}/done\n  every: 1\n"
)


@pytest.mark.parametrize(
    ("job", "options", "refused"),
    [
        (PROGRAM, {"code": "PRIVATE", "code_digest": None}, {"resume": "does not say which code ran"}),
        pytest.param(PROGRAM, {"code_digest": "1" * 64}, {"resume": "is not there"}, marks=pytest.mark.exhaustive),
        (f"{PROGRAM}  code: PRIVATE\n", {"code": None, "code_digest": None}, {}),
        (f"{PROGRAM}  packages: PRIVATE/secret\n", {"code": None, "code_digest": None}, {"resume": "has no lock"}),
        pytest.param(
            f"team: other\n{PROGRAM}",
            {},
            {"resume": f"its record is of the team {TEAM}"},
            marks=pytest.mark.exhaustive,
        ),
        (
            f"{EVALUATED}  job: PRIVATE/job.yaml\n",
            {},
            {"resume": "has no on_checkpoint.job.yaml", "copy": "has no on_check", "evaluate": "has no on_checkpoint"},
        ),
        (
            f"{EVALUATED}  job: {{name: evaluate, run: {{command: [python, evaluate.py], code: .}}}}\n",
            {"evaluation_directory": "PRIVATE", "evaluation_code_digest": None},
            {"evaluate": "does not say which code evaluates them"},
        ),
        (
            f"{EVALUATED}  job: {{name: evaluate, run: {{script: 'true', packages: secret}}}}\n",
            {"evaluation_directory": "PRIVATE"},
            {"evaluate": "has no lock of them"},
        ),
    ],
    ids=[
        *("directory", "another archive", "directory in the job file", "requirements", "another team"),
        *("job of evaluations", "code of evaluations", "requirements of evaluations"),
    ],
)
def test_a_record_chooses_no_file_of_the_reader(
    job: str,
    options: dict[str, Any],
    refused: dict[str, str],
    write: Write,
    trainway: Callable[..., Completed],
    tmp_path: Path,
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "secret").write_text(REQUIREMENT)
    for name in ("evaluate.py", "train.py"):
        (private / name).write_text(REQUIREMENT)
    (private / "job.yaml").write_text(f"name: hidden\n{PROGRAM}")
    record = json.loads(json.dumps(sound("planted")).replace("/home/ada/work", str(private)))
    text = f"name: nightly\nteam: {TEAM}\n{job}" if "team:" not in job else f"name: nightly\n{job}"
    record["files"] = {"job.yaml": (job if job.startswith("name:") else text).replace("PRIVATE", str(private))}
    record["launch"]["options"] |= {
        key: str(private) if value == "PRIVATE" else value for key, value in options.items()
    }
    s3, bucket = boto3.client("s3", region_name=SLURM.region), hand_off_of(SLURM).bucket
    write(key_of(TEAM, "planted"), json.dumps(record))
    s3.put_object(Bucket=bucket, Key="checkpoints/step-1/done")
    for command in ("resume", "copy", "evaluate"):
        done = trainway(command, "planted", *(("--step", "1") if command == "evaluate" else ()))
        assert refused.get(command, "") in done.stderr, f"{command}: {done.stderr}"
    # `private` has what it had, and nothing of it is in the bucket.
    assert {each.name for each in private.iterdir()} == {"secret", "evaluate.py", "train.py", "job.yaml"}
    for each in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
        assert not each["Key"].endswith(".tar.gz")
        assert b"hidden" not in s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_no_run_can_have_is_a_sentence(
    command: tuple[str, ...], trainway: Callable[..., Completed]
) -> None:
    for name in ("a" * 300, "../../x", "a\x01b"):
        done = trainway(command[0], name, *command[1:])
        assert done.returncode == 2 and "there is no run" in done.stderr, done.stderr
