"""`trainway upgrade`: what AWS publishes, the pins of the lock, and what a deploy of them changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from emulator import Emulator, running
from tests.synthesis import resources, templates_of
from trainway.cli import app
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.kubernetes.ami_releases import parameter
from trainway.spec.kubernetes.kubernetes_steps import ADDONS
from trainway.spec.loader import load_lock, load_platform
from trainway.spec.lock import Lock, lock_file, lock_text
from trainway.spec.problems import SpecError

CATALOGUE = load_catalogue()
NVIDIA, STANDARD = CATALOGUE["p5.48xlarge"], CATALOGUE["m7i.2xlarge"]
OLD, NEW = "1.34.1-20261001", "1.34.2-20261112"
ADMINS = {"admins": ["arn:aws:iam::111122223333:role/platform"]}
ADDON_VERSIONS = {"1.34": "v1.2.3-eksbuild.1", "1.35": "v1.3.0-eksbuild.2"}


def version(name: str, standard: datetime, extended: datetime) -> dict[str, Any]:
    """Return what EKS tells of a Kubernetes version."""
    return {
        "clusterVersion": name,
        "clusterType": "eks",
        "versionStatus": "STANDARD_SUPPORT",
        "endOfStandardSupportDate": standard.timestamp(),
        "endOfExtendedSupportDate": extended.timestamp(),
    }


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as emulator:
        offered = [
            {
                "addonName": name,
                "addonVersions": [
                    {
                        "addonVersion": offered,
                        "compatibilities": [{"clusterVersion": minor, "defaultVersion": True}],
                    }
                    for minor, offered in ADDON_VERSIONS.items()
                ],
            }
            for name in (*ADDONS, "adot")
        ]
        releases = {"1.34": NEW, "1.35": "1.35.0-20261112"}
        emulator.publish(
            cluster_versions=[
                version("1.34", datetime(2026, 12, 2, tzinfo=UTC), datetime(2027, 12, 2, tzinfo=UTC)),
                version("1.35", datetime(2027, 3, 27, tzinfo=UTC), datetime(2028, 3, 27, tzinfo=UTC)),
            ],
            addons=offered,
            parameters={
                parameter(minor, instance): release
                for minor, release in releases.items()
                for instance in (NVIDIA, STANDARD)
            },
        )
        yield emulator


@pytest.fixture
def platform_file(tmp_path: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    block = {"capacity_block": "cr-0123456789abcdef0", "start": "2020-01-01T11:30Z", "end": "2020-01-08T11:30Z"}
    groups: list[dict[str, Any]] = [
        {"name": "train", "instance_type": "p5.48xlarge", "count": 4},
        {"name": "block", "instance_type": "p5.48xlarge", "count": 4, "capacity": block},
        {"name": "own", "instance_type": "p5.48xlarge", "count": 1, "image_id": "ami-0123456789abcdef0"},
    ]
    file = tmp_path / "platform.yaml"
    write(file, {"version": "1.34"}, groups)
    return file


def write(file: Path, kubernetes: dict[str, Any], groups: list[dict[str, Any]]) -> None:
    document = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "kubernetes": ADMINS | kubernetes}
    file.write_text(yaml.safe_dump(document | {"node_groups": groups}, sort_keys=False), encoding="utf-8")


def upgrade(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["upgrade", str(file), *arguments])


def said(file: Path, *arguments: str) -> str:
    ran = upgrade(file, *arguments)
    assert ran.exit_code == 0, (ran.output, ran.exception)
    return ran.stdout


def lock(file: Path, **values: Any) -> None:
    lock_file(file).write_text(lock_text(Lock.model_validate(values)), encoding="utf-8")


def test_a_check_prints_what_is_newer_and_the_steps_in_their_order(platform_file: Path) -> None:
    lock(platform_file, kubernetes_version="1.34", ami_releases={"train": OLD, "system": NEW})
    text = said(platform_file, "--check")
    assert "Kubernetes 1.34: standard support until 2026-12-02, extended support until 2027-12-02" in text
    assert f"train: {OLD}; AWS publishes {NEW}" in text
    assert f"system: {NEW}, the newest" in text
    assert f"block: the release of their creation; AWS publishes {NEW}" in text
    assert "own" not in text, "an AMI of yours has no release of EKS's"
    assert "adot" not in text, "the platform does not install it"
    steps = ["list-insights", 'kubernetes.version: "1.35"', "upgrade --addons", "upgrade --group NAME"]
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    document = json.loads(said(platform_file, "--check", "--json"))
    assert document["following"] == "1.35" and len(document["steps"]) == 4
    assert load_lock(lock_file(platform_file)).ami_releases["train"] == OLD, "a check changes nothing"


def test_an_upgrade_changes_pins_and_a_deploy_takes_them(platform_file: Path) -> None:
    said(platform_file)
    pins = load_lock(lock_file(platform_file))
    assert pins.ami_releases == {"block": NEW, "system": NEW, "train": NEW}
    assert pins.addon_versions == dict.fromkeys(sorted(ADDONS), ADDON_VERSIONS["1.34"])
    assert "nothing changes" in said(platform_file)
    stacks = templates_of(load_platform(platform_file))
    nodes = resources(stacks["cluster"], "AWS::EKS::Nodegroup") | resources(
        stacks["control-plane"], "AWS::EKS::Nodegroup"
    )
    versions = {name: (each.get("Version"), each.get("ReleaseVersion")) for name, each in nodes.items()}
    assert versions.pop("OwnNodes") == (None, None), "EKS refuses a release beside an AMI of one's own"
    assert set(versions.values()) == {("1.34", NEW)} and len(versions) == 3
    addons = resources(stacks["control-plane"], "AWS::EKS::Addon").values()
    assert {each["AddonVersion"] for each in addons} == {ADDON_VERSIONS["1.34"]}


def test_parts_are_upgraded_one_after_another(platform_file: Path) -> None:
    lock(platform_file, ami_releases={"train": OLD})
    said(platform_file, "--addons")
    pins = load_lock(lock_file(platform_file))
    assert (pins.ami_releases, set(pins.addon_versions)) == ({"train": OLD}, set(ADDONS))
    lock(platform_file)
    said(platform_file, "--group", "train")
    pins = load_lock(lock_file(platform_file))
    assert (pins.ami_releases, pins.addon_versions) == ({"train": NEW}, {})
    ran = upgrade(platform_file, "--group", "trian")
    assert ran.exit_code and "no node group trian" in str(ran.exception)


def test_nodes_get_the_tags_of_the_file_with_an_upgrade(platform_file: Path) -> None:
    tags = {"Team": "research"}
    platform_file.write_text(platform_file.read_text() + yaml.safe_dump({"tags": tags}))
    pins = {"ami_releases": {"train": NEW, "system": NEW}, "node_tags": {"train": {}, "system": {}}}
    lock(platform_file, **pins)
    said(platform_file, "--addons")
    assert load_lock(lock_file(platform_file)).node_tags == pins["node_tags"]
    assert "train: its nodes get the tags of" in said(platform_file, "--group", "train")
    assert load_lock(lock_file(platform_file)).node_tags == {"train": tags, "system": {}}
    assert "nothing changes" in said(platform_file, "--group", "train")


def test_nodes_follow_the_control_plane_and_never_lead(platform_file: Path) -> None:
    """The file asks for 1.35, and the control plane still has 1.34: the releases are of 1.34 until it is deployed."""
    groups = yaml.safe_load(platform_file.read_text())["node_groups"]
    lock(platform_file, kubernetes_version="1.34")
    write(platform_file, {"version": "1.35"}, groups)
    said(platform_file)
    assert load_lock(lock_file(platform_file)).ami_releases["train"] == NEW
    lock(platform_file, kubernetes_version="1.35", ami_releases={"train": NEW})
    assert "The nodes of train get the control plane's version, 1.35." in said(platform_file, "--check")
    said(platform_file)
    assert load_lock(lock_file(platform_file)).ami_releases["train"] == "1.35.0-20261112"


def test_a_group_keeps_its_release_while_its_capacity_block_runs(platform_file: Path) -> None:
    document = yaml.safe_load(platform_file.read_text())
    end = datetime.now(UTC).replace(hour=11, minute=30, second=0, microsecond=0).timestamp() + 3 * 86400
    times = {"start": datetime.fromtimestamp(end - 7 * 86400, UTC), "end": datetime.fromtimestamp(end, UTC)}
    document["node_groups"][1]["capacity"] |= {key: f"{at:%Y-%m-%dT%H:%MZ}" for key, at in times.items()}
    write(platform_file, document["kubernetes"], document["node_groups"])
    assert "and EKS upgrades it without nodes only" in said(platform_file, "--check")
    assert "block keeps its release: its Capacity Block runs until" in said(platform_file)
    assert set(load_lock(lock_file(platform_file)).ami_releases) == {"train", "system"}
    ran = upgrade(platform_file, "--group", "block")
    assert ran.exit_code and "upgrade it after the block" in str(ran.exception)


@pytest.mark.parametrize(
    ("version", "locked", "said"),
    [
        ("1.36", {"kubernetes_version": "1.34"}, ("one minor version at a time", 'write "1.35"')),
        ("1.33", {"kubernetes_version": "1.34"}, ("does not bring it back", 'write "1.34"')),
        ("1.34", {"ami_releases": {"train": "1.35.0-20261112"}}, ("not newer than the control plane", "1.35")),
        ("1.35", {"ami_releases": {"train": "1.31.0-20261112"}}, ("more than 3 minor versions older", "upgrade")),
        (
            "1.36",
            {"kubernetes_version": "1.35", "ami_releases": {"train": OLD, "system": "1.35.1-20261112"}},
            (f"nodes of train have release {OLD}, and EKS raises 1.35 when", 'write "1.35", run `trainway upgrade`'),
        ),
    ],
)
def test_a_version_that_cannot_be_the_next_is_refused(
    tmp_path: Path, version: str, locked: dict[str, Any], said: tuple[str, str]
) -> None:
    file = tmp_path / "platform.yaml"
    write(file, {"version": version}, [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}])
    lock(file, **locked)
    with pytest.raises(SpecError) as caught:
        load_platform(file)
    (problem,) = caught.value.problems
    assert problem.key == ("kubernetes", "version")
    assert said[0] in problem.reason and said[1] in problem.remedy


def test_a_control_plane_can_rise_above_old_nodes_if_the_file_says_that_eks_allows_it(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    write(file, {"version": "1.36"}, [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}])
    lock(file, kubernetes_version="1.35", ami_releases={"train": OLD})
    rule = "the-nodes-have-the-version-that-the-control-plane-leaves"
    with pytest.raises(SpecError, match=f"accept the rule {rule}"):
        load_platform(file)
    assert load_platform(file, accept=[rule]).kubernetes_or_default.version == "1.36"


@pytest.mark.parametrize(("deployed", "version"), [("1.34", "1.34"), ("1.34", "1.35"), (None, "1.36")])
def test_the_same_and_the_next_version_are_taken(tmp_path: Path, deployed: str | None, version: str) -> None:
    file = tmp_path / "platform.yaml"
    write(file, {"version": version}, [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}])
    lock(file, kubernetes_version=deployed)
    assert load_platform(file).kubernetes_or_default.version == version


def test_slurm_is_told_what_it_has_instead(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    document = {"region": "us-west-2", "zones": ["usw2-az2"], "orchestrator": "hyperpod-slurm"}
    groups = [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}]
    file.write_text(yaml.safe_dump(document | {"node_groups": groups}), encoding="utf-8")
    ran = upgrade(file, "--check")
    assert ran.exit_code and "hyperpod.patching" in str(ran.exception)
