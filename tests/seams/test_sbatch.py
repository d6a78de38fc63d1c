"""bash, shellcheck and a real sbatch read the batch script of every example job, with every set of options."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.seams.seam import Planted, Seam
from tests.seams.slurm_node import EXAMPLE, provisioned
from tests.synthesis import ROOT
from trainway.launch.job_file.programs import load_program
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import LockedPackages
from trainway.launch.program.request import Request
from trainway.launch.slurm import SlurmOptions, render_script
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import Cluster, FileSystem, HandOff, Nodes
from trainway.spec.loader import load_platform

JOBS = [*sorted((ROOT / "examples" / "jobs").glob("*.yaml")), ROOT / "examples/your-program/job.yaml"]
PROGRAMS = sorted((ROOT / "examples" / "jobs").glob("*/job.yaml"))
OPTIONS = {
    "image": (SlurmOptions(), None),
    "borrowed": (SlurmOptions(borrow=True, time_limit_minutes=90), None),
    "environment": (SlurmOptions(environment=PurePosixPath("/fsx/users/ada/venvs/torch")), None),
    "code": (SlurmOptions(), "s3://borealis-data/code/0123456789abcdef.zip"),
}
# What shellcheck takes for slips in single quotes, or cannot follow on this machine, is below this severity.
SEVERITY = "warning"


@cache
def hand_off() -> HandOff:
    """Return the hand-off of the stock Slurm example, with as many nodes as the largest example job has."""
    platform = load_platform(EXAMPLE)
    account = "123456789012"
    return HandOff(
        platform=platform.name,
        orchestrator="hyperpod-slurm",
        region=platform.region,
        bucket=f"{platform.name}-data",
        file_system=FileSystem(
            file_system_id="fs-1", dns_name="fs-1.fsx", mount_name="abc", mount_path="/fsx", associations=()
        ),
        image_uri=f"{account}.dkr.ecr.{platform.region}.amazonaws.com/{platform.name}/training:1",
        cluster=Cluster(
            name=platform.name,
            arn=f"arn:aws:sagemaker:{platform.region}:{account}:cluster/abcdefghijkl",
            namespaces=(),
        ),
        node_groups=(Nodes(name="train", instance_type="p5en.48xlarge", count=1024, max_count=1024),),
        teams=tuple(team.name for team in platform.teams),
    )


def rendered(file: Path, options: SlurmOptions, code: str | None) -> str:
    """Return the batch script of an example job."""
    program, catalogue = load_program(file), load_catalogue()
    if program.packages is not None:
        program = replace(program, lock=LockedPackages(f"trl==1.16.0 --hash=sha256:{64 * '0'}"))
    image = f"{hand_off().image_uri.removesuffix(':1')}@sha256:{'5e' * 32}"
    allocation = allocate(program, hand_off(), catalogue)
    request = Request(program, program.name, hand_off(), image, allocation, code=code)
    return render_script(request, catalogue, options)


def read_by_bash(script: str) -> list[str]:
    """Return what bash and shellcheck complain about."""
    shellcheck = str(Path(sys.executable).with_name("shellcheck"))
    problems = []
    for command in (["bash", "-n"], [shellcheck, f"--severity={SEVERITY}", "-"]):
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        problems += (done.stdout + done.stderr).splitlines() if done.returncode else []
    return problems


def read_by_sbatch(script: str) -> list[str]:
    """Return what sbatch says when a team's user submits the script. The cluster has one node, so the job gets one."""
    node = provisioned()["ctl"]
    node.write("/opt/seam/script", script)
    # Another reader may have restarted slurmctld.
    idle = ["sinfo", "--noheader", "--format=%T"]
    wait_for("the node is idle", lambda: node.run(*idle, check=False).stdout == "idle\n")
    ask = ["sbatch", "--test-only", "--nodes=1", "/opt/seam/script"]
    done = node.run("runuser", "--user=ada", "--", *ask, check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()


def read(script: str) -> list[str]:
    """Return what any of the readers complains about."""
    return read_by_bash(script) + read_by_sbatch(script)


def _changed(script: str, old: str, new: str) -> str:
    assert old in script
    return script.replace(old, new, 1)


TINY = ROOT / "examples" / "jobs" / "tiny.yaml"
# The error, and what is replaced by what.
PLANTED = (
    ("an option does not exist", "#SBATCH --exclusive", "#SBATCH --exclusively"),
    ("an option has a value that is none", "#SBATCH --mem=0", "#SBATCH --mem=all"),
    ("the partition does not exist", "#SBATCH --partition=train", "#SBATCH --partition=trains"),
    ("the job asks for more GPUs than a node has", "#SBATCH --gpus-per-node=8", "#SBATCH --gpus-per-node=9"),
    ("the account does not exist", "#SBATCH --requeue", "#SBATCH --account=nobody"),
    ("a quotation does not end", "trap 'outcome=stopped' USR1", "trap 'outcome=stopped USR1"),
    ("a variable is misspelled", 'rm -f "$run/outcome"', 'rm -f "$runs/outcome"'),
)
YOURS = ROOT / "examples" / "your-program" / "job.yaml"
# Of a job file with `run`, whose script has the program's command and the file that starts it.
PLANTED_IN_YOURS = (
    ("the pattern of a metric of `run` is not quoted", "'--metric=step=step=(\\d+)'", "--metric=step=step=(\\d+)"),
    ("the file that starts the program of `run` has no end", "\nEND\n\nunset ", "\n\nunset "),
)
SEAMS = (
    Seam(
        artifact="sbatch scripts",
        rendered_by="trainway/launch/slurm/script.py",
        reader="bash -n, shellcheck, and `sbatch --test-only` of Slurm 22.05 as a team's user",
        instead="HyperPod's own, newer build of Slurm is in no registry.",
        exhaustive=True,
        planted=tuple(
            Planted(
                error,
                sound=lambda _: read(rendered(TINY, *OPTIONS["image"])),
                broken=lambda _, old=old, new=new: read(rendered(TINY, *OPTIONS["image"]).replace(old, new, 1)),  # type: ignore[misc]
            )
            for error, old, new in PLANTED
        )
        + tuple(
            Planted(
                error,
                sound=lambda _: read_by_bash(rendered(YOURS, *OPTIONS["image"])),
                broken=lambda _, old=old, new=new: read_by_bash(_changed(rendered(YOURS, *OPTIONS["image"]), old, new)),  # type: ignore[misc]
            )
            for error, old, new in PLANTED_IN_YOURS
        ),
    ),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("job", JOBS, ids=lambda file: file.stem)
def test_every_script_is_read(job: Path, options: str) -> None:
    assert read(rendered(job, *OPTIONS[options])) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("job", PROGRAMS, ids=lambda file: file.parent.name)
def test_every_script_of_other_peoples_programs_is_read(job: Path) -> None:
    assert read(rendered(job, *OPTIONS["code"])) == []


@pytest.mark.parametrize(("error", "old", "new"), PLANTED, ids=[error for error, *_ in PLANTED])
def test_what_a_planted_error_replaces_is_in_the_script(error: str, old: str, new: str) -> None:
    script = rendered(TINY, *OPTIONS["image"])
    assert old in script and new not in script, error
