"""The batch script is all that a run needs, and asks for whole nodes."""

from __future__ import annotations

import dataclasses
import getpass
import re
import shlex
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.launch.conftest import write_job
from tests.launch.foreign import write_foreign_job
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm, request
from trainway.launch.job_file.programs import load_program
from trainway.launch.job_file.sweep import Point
from trainway.launch.job_file.training_program import training_command
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import RunLifeCycle
from trainway.launch.program.request import Request
from trainway.launch.slurm import TARGET, SlurmOptions, render_script
from trainway.launch.slurm.interpreter import EFA, EFA_LIBRARIES
from trainway.launch.slurm.lost_nodes import CONTINUES
from trainway.launch.starting.prepare import Launch
from trainway.launch.starting.start import start
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff, TeamData

ROOT = Path(__file__).parents[3]
BATCH_OF_16 = {"global": 16, "micro": 1}
ENVIRONMENT = SlurmOptions(environment=PurePosixPath("/fsx/envs/ada"))


def directives(script: str) -> dict[str, str]:
    """What the script asks sbatch for."""
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH --")]
    return dict(line.partition("=")[::2] for line in lines)


def runs(script: str, line: str) -> str:
    """What a line prints after the script's own assignments, in an empty environment."""
    assigned = [
        each for each in script.split("\nfirst=")[0].splitlines() if re.match(r"(export [A-Z_]+|command|run)=", each)
    ]
    done = subprocess.run(
        ["bash", "-euc", "\n".join([*assigned, line])], env={}, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    "options", [SlurmOptions(time_limit_minutes=60, borrow=True), ENVIRONMENT, SlurmOptions(min_nodes=1, spare_nodes=2)]
)
@pytest.mark.parametrize("instance_type", ["m7i.8xlarge", "p5.48xlarge"])
def test_the_script_is_good_bash(options: SlurmOptions, instance_type: str, tmp_path: Path, hand_off: HandOff) -> None:
    asked = request(tmp_path, on_slurm(hand_off, instance_type=instance_type), batch=BATCH_OF_16)
    shellcheck = Path(sys.executable).with_name("shellcheck")
    script = render_script(asked, CATALOGUE, options)
    # Not what it takes for a slip and is none: a variable in single quotes, a file that is on the cluster.
    checked = subprocess.run(
        [shellcheck, "--severity=warning", "-"], input=script, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.usefixtures("empty_account")
def test_a_launch_renders_its_script_once(tmp_path: Path, hand_off: HandOff, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    monkeypatch.chdir(tmp_path)
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=hand_off.bucket)
    asked, rendered = request(tmp_path, on_slurm(hand_off)), list[Request]()

    def counted(request: Request, *given: Any) -> str:
        rendered.append(request)
        return render_script(request, *given)

    # The package has a function of the name of the module.
    module = sys.modules["trainway.launch.slurm.submit"]
    monkeypatch.setattr(module, "render_script", counted)
    monkeypatch.setattr(module, "cluster_of", lambda *_: {"cluster": "atlas"})
    monkeypatch.setattr(module, "on_cluster", lambda *_, **__: "7")
    monkeypatch.setattr("trainway.launch.starting.start._check_platform", lambda *_: None)
    target = dataclasses.replace(TARGET, prepare=lambda _: [asked], render=counted)
    launch = Launch([Point(asked.program, {})], ROOT / "examples/hyperpod-slurm-p5en.yaml")
    assert start(target, launch, {}) == 0
    assert len(rendered) == 1
    kept = RunLifeCycle(keep_hours=1, stated=frozenset({"keep_hours"}))
    refused = dataclasses.replace(asked, program=dataclasses.replace(asked.program, life_cycle=kept))
    with pytest.raises(UsageError, match="keep_hours"):
        start(dataclasses.replace(target, prepare=lambda _: [refused]), launch, {})
    assert len(rendered) == 1


def test_a_job_is_queued_again_as_often_as_its_job_file_allows(tmp_path: Path, hand_off: HandOff) -> None:
    asked = request(tmp_path, on_slurm(hand_off))

    def script(restarts: int | None, **options: Any) -> str:
        stated = frozenset() if restarts is None else frozenset({"restarts"})
        life_cycle = RunLifeCycle(restarts=restarts or 0, stated=stated)
        changed = dataclasses.replace(asked, program=dataclasses.replace(asked.program, life_cycle=life_cycle))
        return render_script(changed, CATALOGUE, SlurmOptions(**options))

    for restarts, options, requeues, counts, auto_resumes in (
        (None, {}, True, False, True),
        (5, {}, True, True, True),
        (0, {}, False, True, False),
        (0, {"borrow": True}, True, True, False),
    ):
        rendered = script(restarts, **options)
        assert ("#SBATCH --requeue\n" in rendered, "#SBATCH --no-requeue\n" in rendered) == (requeues, not requeues)
        assert (f"export TRAINWAY_RESTARTS={restarts}\n" in rendered) == counts
        assert ("--auto-resume=1" in rendered) == auto_resumes


def test_every_node_runs_the_one_training_command(tmp_path: Path, hand_off: HandOff) -> None:
    file = write_job(tmp_path)
    asked = dataclasses.replace(request(tmp_path, on_slurm(hand_off)), program=load_program(file, until_step=5))
    for options in (SlurmOptions(), ENVIRONMENT):
        script = render_script(asked, CATALOGUE, options)
        assert tuple(runs(script, 'printf "%s\\n" "${command[@]}"').split()) == training_command(5)


def test_a_node_is_asked_for_whole_with_all_its_gpus(tmp_path: Path, hand_off: HandOff) -> None:
    asked = request(tmp_path, on_slurm(hand_off, instance_type="p5.48xlarge"), nodes=2, batch=BATCH_OF_16)
    script = render_script(asked, CATALOGUE)
    wanted = directives(script)
    assert wanted["nodes"] == "2" and wanted["ntasks-per-node"] == "1" and wanted["gpus-per-node"] == "8"
    assert wanted["mem"] == "0" and "exclusive" in wanted and wanted["partition"] == "train"
    assert runs(script, 'echo "$PET_NNODES $PET_NPROC_PER_NODE"') == "2 8\n"


def test_a_run_that_lost_a_node_is_queued_again_and_keeps_its_log(tmp_path: Path, hand_off: HandOff) -> None:
    wanted = directives(render_script(request(tmp_path, on_slurm(hand_off)), CATALOGUE))
    assert "requeue" in wanted and wanted["open-mode"] == "append"
    assert wanted["output"] == "/fsx/runs/small-1/logs/slurm.log"


def test_limits_of_the_login_node_do_not_come_along(tmp_path: Path, hand_off: HandOff) -> None:
    assert directives(render_script(request(tmp_path, on_slurm(hand_off)), CATALOGUE))["propagate"] == "NONE"


def test_a_team_is_an_account_and_what_it_borrows_a_qos(tmp_path: Path, hand_off: HandOff) -> None:
    asked = request(tmp_path, on_slurm(hand_off), team="research")
    own = directives(render_script(asked, CATALOGUE))
    borrowed = directives(render_script(asked, CATALOGUE, SlurmOptions(borrow=True)))
    # Without a QOS it is in the first of its account's, which is the team's own.
    assert own["account"] == borrowed["account"] == "research"
    assert "qos" not in own and borrowed["qos"] == "borrowed"


def test_there_is_nothing_to_borrow_without_teams(tmp_path: Path, hand_off: HandOff) -> None:
    alone = on_slurm(hand_off).model_copy(update={"teams": ()})
    with pytest.raises(UsageError, match="has no teams"):
        render_script(request(tmp_path, alone), CATALOGUE, SlurmOptions(borrow=True))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (SlurmOptions(spare_nodes=3), r"5 nodes with its spare nodes.*at most 4.*lower --spare-nodes"),
        (SlurmOptions(min_nodes=3), "asks for 2 nodes, and for 3 at least.*name 1 to 2"),
    ],
)
def test_impossible_numbers_of_spare_and_minimum_nodes_are_refused(
    options: SlurmOptions, says: str, tmp_path: Path, hand_off: HandOff
) -> None:
    with pytest.raises(UsageError, match=f"(?s){says}"):
        render_script(request(tmp_path, on_slurm(hand_off), nodes=2), CATALOGUE, options)


@pytest.mark.parametrize(
    ("status", "another_succeeded", "reported"),
    [
        pytest.param(0, False, 0, id="a node with ranks succeeds"),
        pytest.param(1, True, 0, id="a node without ranks fails when the run succeeds"),
        pytest.param(7, False, 7, id="the run fails"),
    ],
)
def test_a_node_of_a_job_with_spare_nodes_reports_what_the_run_does(
    status: int, another_succeeded: bool, reported: int, tmp_path: Path
) -> None:
    logs, succeeded, commands = tmp_path / "start-0/n3", tmp_path / "start-0/succeeded", tmp_path / "bin"
    logs.mkdir(parents=True)
    if another_succeeded:
        succeeded.touch()
    # The script waits for the other nodes.
    commands.mkdir()
    (commands / "sleep").symlink_to("/bin/true")
    environment = {"PATH": f"{commands}:/usr/bin:/bin", "PET_LOG_DIR": str(logs)}
    node = ["bash", "-euo", "pipefail", "-c", CONTINUES["start"], "node", "sh", "-c", f"exit {status}"]
    assert subprocess.run(node, env=environment, check=False).returncode == reported
    assert succeeded.exists() == (another_succeeded or not status)


def test_a_program_of_torchrun_can_have_spare_nodes_and_its_starter_waits_for_the_others(
    tmp_path: Path, hand_off: HandOff
) -> None:
    there = on_slurm(hand_off)
    file = write_foreign_job(tmp_path)
    program = load_program(file)
    asked = Request(program, "x-1", there, IMAGE, allocate(program, there, CATALOGUE))
    with pytest.raises(UsageError, match="process_restarts: 3"):
        render_script(asked, CATALOGUE, SlurmOptions(spare_nodes=1))
    file.write_text(f"{file.read_text()}life_cycle: {{process_restarts: 3}}\n")
    asked = dataclasses.replace(asked, program=load_program(file))
    script = render_script(asked, CATALOGUE, SlurmOptions(spare_nodes=1))
    assert "--late-failure=10" in script and "#SBATCH --nodes=2\n" in script and "PET_NNODES=1:1" in script
    assert "--late-failure=" not in render_script(asked, CATALOGUE)


def test_slurm_log_has_no_line_that_another_file_has(tmp_path: Path, hand_off: HandOff) -> None:
    there, said = on_slurm(hand_off), 'echo "$PET_REDIRECTS $PET_TEE ${TRAINWAY_OUTPUT_KEPT_IN:-}"'
    assert runs(render_script(request(tmp_path, there), CATALOGUE), said) == "3 0 \n"
    program = load_program(write_foreign_job(tmp_path))
    asked = Request(program, "x-1", there, IMAGE, allocate(program, there, CATALOGUE))
    # The starter reads what torchrun prints, and passes nothing on.
    assert runs(render_script(asked, CATALOGUE), said) == "3 3 files\n"


@pytest.mark.parametrize(("grace", "refused"), [(110, False), (111, True)])
def test_a_program_that_borrows_ends_before_slurm_kills_it(
    grace: int, refused: bool, tmp_path: Path, hand_off: HandOff
) -> None:
    there = on_slurm(hand_off)
    program = dataclasses.replace(load_program(write_foreign_job(tmp_path, stop={"grace": grace})), team="research")
    asked = Request(program, "x-1", there, IMAGE, allocate(program, there, CATALOGUE))
    assert render_script(asked, CATALOGUE)
    if not refused:
        assert render_script(asked, CATALOGUE, SlurmOptions(borrow=True))
        return
    with pytest.raises(UsageError, match=r"(?s)kills a preempted job 120 seconds.*to 110 at most, or launch without"):
        render_script(asked, CATALOGUE, SlurmOptions(borrow=True))


def test_a_run_is_told_to_save_before_its_time_is_over(tmp_path: Path, hand_off: HandOff) -> None:
    wanted = directives(
        render_script(request(tmp_path, on_slurm(hand_off)), CATALOGUE, SlurmOptions(time_limit_minutes=90))
    )
    assert (wanted["time"], wanted["signal"]) == ("90", "B:USR1@300")


@pytest.mark.parametrize("more", ["", "# END\nEND\nEND_\n", "# $(date) `date` $HOME \\ 'x' \"y\" é"])
def test_the_job_file_arrives_as_it_is(more: str, tmp_path: Path, hand_off: HandOff) -> None:
    asked = request(tmp_path, on_slurm(hand_off))
    asked = dataclasses.replace(asked, program=dataclasses.replace(asked.program, text=f"{asked.job_text}{more}"))
    script = render_script(asked, CATALOGUE)
    written = script[script.index('cat >"$run/job.yaml"') : script.index("\nexport ")]
    subprocess.run(["bash", "-euc", f"run={shlex.quote(str(tmp_path))}\n{written}"], check=True)
    assert (tmp_path / "job.yaml").read_text().rstrip("\n") == asked.job_text.rstrip("\n")


def test_the_image_is_taken_by_its_digest_and_made_a_file_once(tmp_path: Path, hand_off: HandOff) -> None:
    """With an enroot and an aws that say how they were called."""
    mount = tmp_path / "fsx"
    mount.mkdir()
    asked = request(tmp_path, on_slurm(hand_off, mount=str(mount)))
    script = render_script(asked, CATALOGUE)
    programs = tmp_path / "bin"
    programs.mkdir()
    enroot = (
        '#!/bin/sh\necho "$@" >>"$TMPDIR/calls"\ncat "$ENROOT_CONFIG_PATH/.credentials" >>"$TMPDIR/calls"\n: >"$3"\n'
    )
    (programs / "enroot").write_text(enroot)
    (programs / "enroot").chmod(0o755)
    prepared = script[script.index("\nif ! command -v enroot") : script.index("\ncommand=")]
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "TMPDIR": str(tmp_path)}
    shown = f'{prepared}\nprintf "%s\\n" "${{options[@]}}"'
    for _ in range(2):
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", shown], env=environment, check=True, capture_output=True, text=True
        )
    registry = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
    file = mount / "images" / getpass.getuser() / f"{'5e' * 32}.sqsh"
    assert file.exists()
    options = [f"--container-image={file}", f"--container-mounts={mount}:{mount}", "--no-container-mount-home"]
    assert ran.stdout.splitlines() == options
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"import --output {file}.7 docker://AWS@{registry}#atlas/training:sha256:{'5e' * 32}",
        # enroot runs the command when it needs the password.
        f"machine {registry} login AWS password $(aws ecr get-login-password --region us-west-2)",
    ]


@pytest.mark.parametrize(
    ("enroot", "why"),
    [
        (
            "echo '[INFO] Fetching image manifest' >&2; "
            "echo '[ERROR] URL https://registry/v2/x/manifests/1 returned error code: 404 Not Found' >&2; exit 1",
            "cannot import the image {image}: URL https://registry/v2/x/manifests/1 returned error code: 404 Not Found",
        ),
        ("exit 3", "cannot import the image {image}: the log says why"),
        (None, "has no enroot: [25-containers] in /var/log/provision/provisioning.log there says why;"),
    ],
    ids=["absent image", "another error", "no enroot"],
)
def test_a_run_without_its_image_ends_with_the_reason(
    enroot: str | None, why: str, tmp_path: Path, hand_off: HandOff
) -> None:
    mount, programs = tmp_path / "fsx", tmp_path / "bin"
    for directory in (mount, programs):
        directory.mkdir()
    asked = request(tmp_path, on_slurm(hand_off, mount=str(mount)))
    script = render_script(asked, CATALOGUE)
    if enroot:
        (programs / "enroot").write_text(f'#!/bin/sh\n: >"$3"\n{enroot}\n')
        (programs / "enroot").chmod(0o755)
    prepared = script[script.index("\ncannot_start() {") : script.index("\ncommand=")]
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "SLURM_JOB_ID": "7",
        "SLURMD_NODENAME": "n1",
        "TMPDIR": str(tmp_path),
        "run": str(tmp_path),
    }
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", prepared], env=environment, check=False, capture_output=True, text=True
    )
    said = (tmp_path / "outcome").read_text()
    assert ran.returncode == 1 and said.startswith(f"failed: n1 {why.format(image=asked.image)}")
    assert said.removeprefix("failed: ") in ran.stderr
    assert not list(mount.glob("images/*/*")), "no half of an image stays"


def test_a_virtual_environment_gets_the_settings_that_the_image_has(tmp_path: Path, hand_off: HandOff) -> None:
    dockerfile = (ROOT / "container" / "Dockerfile").read_text()
    before, _, stage = dockerfile.partition("AS environment-kept-cuda\n")
    # What a base with packages of its own gets is before its own settings.
    settings = dict(re.findall(r"^(?:ENV|   ) ([A-Z_]+)=(\S+)", before + stage.partition("\nFROM ")[2], re.MULTILINE))
    assert {name: settings.get(name) for name in EFA} == EFA
    assert settings["LD_LIBRARY_PATH"] == EFA_LIBRARIES
    asked = request(tmp_path, on_slurm(hand_off, instance_type="p5.48xlarge"), batch=BATCH_OF_16)
    script = render_script(asked, CATALOGUE, ENVIRONMENT)
    assert runs(script, 'echo "$LD_LIBRARY_PATH $NCCL_NET_PLUGIN"') == f"{EFA_LIBRARIES} ofi\n"
    assert "source /fsx/envs/ada/bin/activate" in script and "enroot" not in script


def test_nothing_of_the_launcher_s_environment_is_written_down(
    tmp_path: Path, hand_off: HandOff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    assert "very-secret" not in render_script(request(tmp_path, on_slurm(hand_off)), CATALOGUE)


def test_on_a_platform_with_prefixes_of_teams_a_run_is_its_teams(tmp_path: Path, hand_off: HandOff) -> None:
    data = {team: TeamData(own=(f"runs/{team}", f"checkpoints/{team}")) for team in ("research", "guests")}
    on = on_slurm(hand_off.model_copy(update={"teams": tuple(data), "team_data": data}))
    script = render_script(request(tmp_path, on, team="research"), CATALOGUE)
    assert directives(script)["account"] == "research"
    assert directives(script)["chdir"] == "/fsx/runs/research/small-1"
    # A login shell's credentials are those of another team, perhaps, and Slurm's task prolog names those of the job.
    assert "AWS_CONTAINER_CREDENTIALS_FULL_URI" not in script
    with pytest.raises(UsageError, match="set team, for example research"):
        render_script(request(tmp_path, on), CATALOGUE)
    only = on.model_copy(update={"teams": ("research",)})
    assert directives(render_script(request(tmp_path, only), CATALOGUE))["chdir"] == "/fsx/runs/research/small-1"
