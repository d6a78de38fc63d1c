"""`trainway init` writes a file that has no problems, for every instance type, or says why there can be none."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import Completed, run_trainway
from tests.people import ADMIN
from trainway.new_platform.text import platform_text
from trainway.new_platform.wishes import Wishes, capacities_for, regions_for
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.sections.orchestrator import Orchestrator

COMMAND = [sys.executable, "-m", "trainway.cli", "init"]
OPTIONS = {
    "--type": "p5.48xlarge",
    "--count": "4",
    "--orchestrator": "eks",
    "--region": "us-west-2",
    "--capacity": "on-demand",
    "--admin": ADMIN,
    "--name": "atlas",
}
IDENTIFIERS = {
    "reservation": "reservation:cr-0123456789abcdef0",
    "capacity-block": "capacity-block:cr-0123456789abcdef0",
    "training-plan": "arn:aws:sagemaker:{region}:111122223333:training-plan/atlas",
}
# `node_groups` on HyperPod with Trainium need an image that only its owner can name.
NEEDS_AN_IMAGE = ("trn1.", "trn1n.", "trn2.", "trn2u.")


def init(file: Path, **changes: str | None) -> Completed:
    options = OPTIONS | {f"--{name}": value for name, value in changes.items()}
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    return run_trainway("init", str(file), *words, directory=file.parent)


@pytest.mark.parametrize("orchestrator", Orchestrator)
def test_every_type_has_a_file_in_every_way_of_buying_it(orchestrator: Orchestrator, tmp_path: Path) -> None:
    file, written = tmp_path / "platform.yaml", 0
    # Types without accelerators are alike, and there are a thousand of them.
    catalogue = load_catalogue()
    for name in [each for each in catalogue if catalogue[each].accelerator or each in ("m7i.2xlarge", "c8a.large")]:
        for region in regions_for(name, orchestrator)[:2]:
            for way in capacities_for(name, orchestrator):
                capacity = IDENTIFIERS.get(way, way).format(region=region)
                answers = Wishes("atlas", name, 2, orchestrator, region, capacity, ADMIN)
                try:
                    file.write_text(platform_text(answers), encoding="utf-8")
                except UsageError as error:
                    # The one price list that knows where something is not sold, and the images of Trainium.
                    assert "types-are-sold-on-demand" in str(error) or name.startswith(NEEDS_AN_IMAGE), str(error)
                    continue
                platform = load_platform(file)
                assert (platform.region, platform.orchestrator) == (region, orchestrator)
                assert platform.node_groups[0].instance_type == name
                written += 1
    assert written > 80


def test_the_file_is_written_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    done = init(file)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"trainway plan {file}" in done.stdout
    assert load_platform(file).zones == ("usw2-az1", "usw2-az2")
    assert "# The nodes are in the first zone. An EKS control plane needs a second one." in file.read_text()


def test_a_platform_without_a_file_system_is_offered_where_fsx_is_not(tmp_path: Path) -> None:
    with_one = set(regions_for("g4dn.12xlarge", Orchestrator.EKS))
    more = [each for each in regions_for("g4dn.12xlarge", Orchestrator.EKS, file_system=False) if each not in with_one]
    assert more
    text = platform_text(Wishes("atlas", "g4dn.12xlarge", 2, Orchestrator.EKS, more[0], "on-demand", ADMIN, False))
    (tmp_path / "platform.yaml").write_text(text)
    assert load_platform(tmp_path / "platform.yaml").storage.lustre is None
    asked = OPTIONS | {"--type": "g4dn.12xlarge", "--region": more[0]}
    words = [word for pair in asked.items() for word in pair]
    command = ["init", str(tmp_path / "other.yaml"), *words]
    refused = run_trainway(*command, directory=tmp_path)
    assert refused.returncode == 2 and "--orchestrator eks with --no-file-system" in refused.stderr
    done = run_trainway(*command, "--no-file-system", directory=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_hyperpod_without_a_file_system_is_refused() -> None:
    answers = Wishes("atlas", "p5.48xlarge", 2, Orchestrator.HYPERPOD_EKS, "us-west-2", "on-demand", ADMIN, False)
    with pytest.raises(UsageError, match="requires a file system"):
        platform_text(answers)


def test_a_file_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text("mine")
    done = init(file)
    assert (done.returncode, file.read_text()) == (2, "mine")
    assert "is not overwritten" in done.stderr


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"type": "p5"}, ["--type p5", "did you mean p5.4xlarge or p5.48xlarge?"]),
        ({"type": "m8g.2xlarge"}, ["--type m8g.2xlarge", "arm64", "built for x86_64"]),
        ({"type": "trn3.48xlarge"}, ["--type trn3.48xlarge", "AWS has published its chips"]),
        ({"type": "h100"}, ["--type h100", "`trainway instances` lists the types"]),
        ({"region": "us-wset-2"}, ["--region us-wset-2", "did you mean us-west-2"]),
        ({"region": "eu-west-1"}, ["--region eu-west-1", "are not all there", "use "]),
        ({"region": "mx-central-1"}, ["--region mx-central-1", "zones that this platform needs are not known"]),
        ({"capacity": "training-plan:x"}, ["capacity", "fix:"]),
        ({"capacity": "cheap"}, ["capacity", "fix:"]),
        ({"name": "a\nregion: us-east-1"}, ["name = ", "lower-case letters"]),
        ({"admin": 'x", "y'}, ["admins", "fix:"]),
        ({"count": "0"}, ["--count"]),
        ({"region": None}, ["--region", "no terminal to ask at"]),
    ],
)
def test_a_wrong_answer_is_explained_and_nothing_is_written(
    changes: dict[str, str | None], says: list[str], tmp_path: Path
) -> None:
    done = init(tmp_path / "platform.yaml", **changes)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "Traceback" not in done.stderr
    for part in says:
        assert part in done.stderr


def answer(directory: Path, answers: list[str], environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Return the status and the output of a command whose questions are answered in a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND],
        cwd=directory,
        env=os.environ | (environment or {"AWS_CONFIG_FILE": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true"}),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    os.close(theirs)
    # A further question meets the end of what is typed.
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode() + b"\x04")
    output, _ = process.communicate(timeout=120)
    os.close(ours)
    return process.returncode, output.decode()


def test_what_is_not_given_is_asked_for(tmp_path: Path) -> None:
    # An empty answer takes what is proposed: the zone, a new VPC with its range, and no teams.
    answers = ["g5.8xlarge", "eks", "us-west-2", "spot", "", "first", "2", "", "", "", ADMIN]
    status, output = answer(tmp_path, answers)
    assert status == 0, output
    platform = load_platform(tmp_path / "platform.yaml")
    assert (platform.name, platform.node_groups[0].count, platform.node_groups[0].capacity) == ("first", 2, "spot")
    assert "on-demand, spot, reservation:cr-…" in output
    assert "network" not in platform.model_fields_set and platform.teams == ()


def test_a_mistake_is_explained_and_asked_again(tmp_path: Path) -> None:
    answers = [
        *("p5.48xlrage", "p5.48xlarge", "kubernetes", "eks", "us-wset-2", "us-west-2", "cheap", "on-demand"),
        *("usw2-az9", "usw2-az2", "Atlas", "atlas", "two", "2", "yes", "new", "10.0.0.0/33", "10.7.0.0/16"),
        *("research=one", "research=3", "research=2", "me", ADMIN),
    ]
    # Of three guaranteed nodes there are two, which the whole file tells.
    status, output = answer(tmp_path, answers)
    assert status == 0, output
    for said in (
        "did you mean p5.48xlarge",
        "there is no such orchestrator",
        "did you mean us-west-2",
        "it is not a kind of capacity",
        "us-west-2 has p5.48xlarge in usw2-az1",
        "lower-case letters",
        "it is no number of nodes",
        "it is no ID of a VPC",
        "what follows = is no number of nodes",
    ):
        assert said in output, output
    platform = load_platform(tmp_path / "platform.yaml")
    assert platform.zone_of(platform.node_groups[0]) == "usw2-az2"
    assert str(platform.network.cidr) == "10.7.0.0/16"
    assert [(team.name, dict(team.guarantee)) for team in platform.teams] == [("research", {"p5.48xlarge": 2})]
    # P5 reads the file system over EFA.
    assert platform.storage.lustre and platform.storage.lustre.efa


@pytest.mark.parametrize(
    ("option", "value"), [("--start", "2026-12-01T11:30Z"), ("--route-table", "rtb-0123456789abcdef0")]
)
def test_an_option_that_says_nothing_is_refused(option: str, value: str, tmp_path: Path) -> None:
    done = init(tmp_path / "platform.yaml", **{option.removeprefix("--"): value})
    assert done.returncode == 2 and f"{option} {value}" in done.stderr and "leave it out" in done.stderr
