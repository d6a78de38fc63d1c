"""`trainway plan`: everything that a platform will have, and nothing that is not a function of file and catalogue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.people import with_people
from tests.representatives import PLATFORMS, with_representatives
from tests.synthesis import EXAMPLES, ROOT, resources, templates_of
from trainway.cli import app
from trainway.plan import plan_document, plan_text
from trainway.spec.deployment.creation import CreationStep, creation_steps, critical_path, durations, step_of_image
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.image_builds import additions_builds, image_builds
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

CATALOGUE = load_catalogue()
BY_NAME = {file.stem: file for file in EXAMPLES}


def printed(*arguments: str) -> str:
    ran = CliRunner().invoke(app, ["plan", *arguments])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_capacity_that_has_a_time_is_in_the_plan(tmp_path: Path) -> None:
    """Two Capacity Blocks, of which one drains earlier, and a training plan, whose nodes HyperPod adds."""

    def plan(orchestrator: str, kind: str, name: str, **more: object) -> tuple[str, Any]:
        capacity = {kind: name, "start": "2026-12-01T11:30Z", "end": "2026-12-08T11:30Z", **more}
        group = {"name": "train", "instance_type": "p5.48xlarge", "count": 4, "capacity": capacity}
        file = tmp_path / "platform.yaml"
        document = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "orchestrator": orchestrator}
        file.write_text(yaml.safe_dump(with_people(document | {"node_groups": [group]})), encoding="utf-8")
        return printed(str(file)), json.loads(printed(str(file), "--json"))["node_groups"][0]["capacity"]

    text, times = plan("eks", "capacity_block", "cr-0123456789abcdef0")
    assert times == {
        "kind": "capacity-block",
        "start": "2026-12-01T11:30Z",
        "raised": "2026-12-01T11:31Z",
        "drained": "2026-12-08T10:45Z",
        "scaled_down": "2026-12-08T10:50Z",
        "terminated": "2026-12-08T11:00Z",
        "end": "2026-12-08T11:30Z",
    }
    assert "train is deployed without nodes. Its Capacity Block starts at 2026-12-01T11:30Z." in text
    for time in times.values():
        assert time in text or time == "capacity-block"
    assert plan("eks", "capacity_block", "cr-0123456789abcdef0", drain_minutes=90)[1]["drained"] == "2026-12-08T10:00Z"
    arn = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/x"
    text, times = plan("hyperpod-eks", "training_plan", arn)
    assert times == {"kind": "training-plan", "start": "2026-12-01T11:30Z", "end": "2026-12-08T11:30Z"}
    assert "train has capacity from 2026-12-01T11:30Z to 2026-12-08T11:30Z, where HyperPod adds its nodes." in text


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_machines_read_the_same_plan_as_people(file: Path) -> None:
    document: dict[str, Any] = json.loads(printed(str(file), "--json"))
    assert document == plan_document(load_platform(file), CATALOGUE)
    text = printed(str(file))
    for subnet in document["subnets"]:
        assert subnet["needed"] == sum(need["addresses"] for need in subnet["needs"]) <= subnet["usable"]
        (line,) = [line for line in text.splitlines() if line.split()[:1] == [subnet["name"]]]
        assert line.split()[1:5] == [subnet["zone"], subnet["cidr"], str(subnet["needed"]), str(subnet["usable"])]
    for quota in document["quotas"]:
        assert f"{quota['needed']}  {quota['service']}" in text and quota["name"] in text
    assert not any(line != line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(
    ("example", "changes", "said"),
    [
        (
            "eks-p5",
            {},
            ["train by EFA, fit for GPUDirect, data by TCP (m7i.8xlarge is", "keeps the bucket, and deletes lustre."],
        ),
        (
            "hyperpod-slurm-p5en",
            {"storage": {"home": {}}},
            ["train by TCP (the file system has no EFA)", "keeps the bucket, and deletes lustre and home."],
        ),
    ],
)
def test_the_plan_says_how_data_is_reached_and_what_stays(
    example: str, changes: dict[str, Any], said: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load((ROOT / "examples" / f"{example}.yaml").read_text()) | changes))
    text = printed(str(file))
    assert all(each in text for each in said), text


def test_the_plan_has_the_sum_behind_the_prefixes_of_checkpoints() -> None:
    text = printed(str(ROOT / "examples" / "hyperpod-eks-p5.yaml"))
    sums = "532 writers on 4 prefixes. Each prefix gets at most 133 writers × 21 = 2793 of the 3500 requests a second"
    assert sums in text


@pytest.mark.parametrize(
    ("file", "ranks", "devices"),
    [
        ("eks-p5", 8, {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}),
        ("closed-hyperpod-eks", 8, {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 16}),
    ],
)
def test_a_pod_with_a_node_to_itself_asks_for_all_that_the_node_has(
    file: str, ranks: int, devices: dict[str, int]
) -> None:
    train = plan_document(load_platform(ROOT / "examples" / f"{file}.yaml"), CATALOGUE)["node_groups"][0]
    assert (train["ranks_per_node"], train["devices_per_node"]) == (ranks, devices)


# https://awsdocs-neuron.readthedocs-hosted.com/en/latest/frameworks/torch/torch-neuronx/programming-guide/training/
# pytorch-neuron-programming-guide.html (read 2026-11-21): 32 processes on trn1.32xlarge, 64 on trn2.48xlarge
@pytest.mark.parametrize(
    ("name", "ranks", "devices"),
    [
        ("trn1.32xlarge", 32, {"aws.amazon.com/neuron": 16, "vpc.amazonaws.com/efa": 8}),
        ("trn2.48xlarge", 64, {"aws.amazon.com/neuron": 16, "vpc.amazonaws.com/efa": 16}),
        ("p6-b300.48xlarge", 8, {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 16}),
        ("p5.4xlarge", 1, {"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 1}),
        ("m7i.8xlarge", 1, {}),
    ],
)
def test_ranks_and_devices_are_those_of_the_type(name: str, ranks: int, devices: dict[str, int]) -> None:
    assert (CATALOGUE[name].ranks, dict(CATALOGUE[name].devices)) == (ranks, devices)


def test_the_collector_is_shown_or_why_there_is_none(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "eks-p5.yaml").read_text()
    assert "\nMetrics are collected by an AWS managed collector, and the deploy installs the alarms.\n" in printed(
        str(ROOT / "examples" / "eks-p5.yaml")
    )
    file = tmp_path / "platform.yaml"
    file.write_text(text.replace("observability: {notify", "observability: {metrics: none, notify"))
    why = "the platform file turns the collector off"
    assert f"\nMetrics of nodes and GPUs are not collected: {why}.\n" in printed(str(file))


def test_a_closed_network_shows_its_endpoints() -> None:
    text = printed(str(ROOT / "examples" / "closed-hyperpod-eks.yaml"))
    assert "\nVPC endpoints: s3, aps-workspaces, codebuild, ec2, " in text
    assert "NAT" not in text


def test_a_closed_network_with_the_training_operator_shows_its_endpoints(tmp_path: Path) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-install.html (read 2026-11-22)"""
    text = (ROOT / "examples" / "closed-hyperpod-eks.yaml").read_text(encoding="utf-8")
    file = tmp_path / "platform.yaml"
    file.write_text(text + "\nhyperpod: {training_operator: true}\n", encoding="utf-8")
    (line,) = [line for line in printed(str(file)).splitlines() if line.startswith("VPC endpoints: ")]
    assert {"eks-auth", "sagemaker.api"} <= set(line.removeprefix("VPC endpoints: ").split(", "))


def test_every_plan_says_how_many_addresses_efa_only_saved() -> None:
    """31 of a P5 node's 32 EFA interfaces are on other cards than the first, and none takes an address."""
    text = printed(str(ROOT / "examples" / "eks-p5.yaml"))
    assert f"which saves {31 * 16}." in text


@pytest.mark.parametrize(
    ("changes", "enforced_by"),
    [
        ({"orchestrator": "eks"}, "Kueue"),
        ({"orchestrator": "eks", "kubernetes": {"queues": "kai"}}, "KAI"),
        ({"orchestrator": "eks", "kubernetes": {"queues": "none"}}, None),
        ({"orchestrator": "hyperpod-eks"}, "task governance"),
        ({"orchestrator": "hyperpod-eks", "hyperpod": {"task_governance": False}}, None),
        ({"orchestrator": "hyperpod-slurm"}, "Slurm"),
    ],
)
def test_the_plan_says_what_teams_are_sure_of_and_who_sees_to_it(
    changes: dict[str, Any], enforced_by: str | None, tmp_path: Path
) -> None:
    platform: dict[str, Any] = {
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 4}],
        "teams": [{"name": "research", "guarantee": {"p5.48xlarge": 3}}, {"name": "guests", "borrow": False}],
    }
    if changes["orchestrator"] == "hyperpod-slurm":
        changes = {**changes, "teams": [{**team, "users": ["ada"]} for team in platform["teams"]]}
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(platform | changes)))
    teams = json.loads(printed(str(file), "--json"))["teams"]
    assert {team["enforced_by"] for team in teams} == {enforced_by}
    text = printed(str(file))
    assert f"enforced by {enforced_by or 'nothing'}." in text
    assert "3 × p5.48xlarge" in text
    assert all(team["namespace"] in text for team in teams if team["namespace"])
    assert all(team["namespace"] for team in teams) == (changes["orchestrator"] != "hyperpod-slurm")


def test_the_plan_says_that_run_ai_sees_to_quotas_and_names_none(tmp_path: Path) -> None:
    platform: dict[str, Any] = {
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 4}],
        "kubernetes": {"queues": "run-ai", "gpu_devices": "operator"},
        "teams": [{"name": "research"}],
    }
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(platform)))
    (team,) = json.loads(printed(str(file), "--json"))["teams"]
    assert team["enforced_by"] == "Run:ai"
    assert "the quotas of Run:ai's projects" in printed(str(file))


def test_the_plan_shows_the_quotas_that_the_deploy_writes_into_run_ai(tmp_path: Path) -> None:
    section = {"control_plane": "https://acme.run.ai", "secret": "run-ai"}
    platform: dict[str, Any] = {
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 4}],
        "kubernetes": {
            "run_ai": section,
            "gpu_devices": "operator",
            "system_nodes": {"instance_type": "m7i.4xlarge"},
        },
        "teams": [{"name": "research", "guarantee": {"p5.48xlarge": 3}}],
    }
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(platform)))
    text = printed(str(file))
    assert "Guarantees are enforced by Run:ai." in text and "3 × p5.48xlarge" in text and "runai-cluster" in text


@pytest.mark.parametrize("example", with_representatives(BY_NAME, PLATFORMS))
def test_the_plan_names_every_addon_and_chart_that_the_stacks_install(example: str) -> None:
    file = BY_NAME[example]
    text, cluster = printed(str(file)), templates_of(file)["cluster"]
    for addon in resources(cluster, "AWS::EKS::Addon").values():
        assert addon["AddonName"] in text
    for project in resources(cluster, "AWS::CodeBuild::Project").values():
        variables = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
        assert all(chart in text for chart in str(variables.get("CHARTS", "")).split())


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_plan_shows_the_longest_way_through_a_deploy_and_which_of_its_times_aws_publishes(file: Path) -> None:
    platform = load_platform(file)
    deploy = plan_document(platform, CATALOGUE)["deploy"]
    text, known = printed(str(file)), durations()
    further = {step_of_image(name) for name in platform.images}
    assert deploy["minutes"] == sum(step["minutes"] for step in deploy["critical_path"])
    for step in deploy["critical_path"]:
        sources = known[step["step"]].sources
        assert step["published"] is bool(sources)
        assert f"{step['step']} {'' if sources else '~'}{step['minutes']}" in text
    shown = {step["step"] for step in (*deploy["critical_path"], *deploy["beside"])}
    assert len(shown) == len(deploy["critical_path"]) + len(deploy["beside"]), "each step is named once"
    assert shown == {step.name for step in creation_steps(platform, CATALOGUE)}
    assert shown - further <= set(known)


def test_the_longest_way_is_the_longest_and_not_the_one_with_most_steps() -> None:
    steps = [
        CreationStep("first", (), 1, False),
        CreationStep("slow", (), 10, False),
        CreationStep("second", ("first",), 2, False),
        CreationStep("third", ("second",), 3, False),
        CreationStep("last", ("third", "slow"), 1, False),
    ]
    assert [step.name for step in critical_path(steps)] == ["slow", "last"]


def test_the_plan_has_what_a_change_of_the_image_costs() -> None:
    measured = json.loads((ROOT / image_builds().result).read_text(encoding="utf-8"))
    assert image_builds().date.isoformat() == measured["date"][:10]
    document = json.loads(printed(str(ROOT / "examples/eks-p5.yaml"), "--json"))
    changes = document["image"]["changes"]
    assert [(each["base_seconds"], each["image_seconds"], each["bytes"]) for each in changes] == [
        tuple(measured["figures"][build][figure] for figure in ("base_seconds", "image_seconds", "bytes"))
        for build in ("line", "package", "nothing")
    ]
    text = printed(str(ROOT / "examples/eks-p5.yaml"))
    assert f"{changes[0]['bytes'] / 1e6:,.1f} MB" in text
    assert "These figures do not include EFA, NCCL's tests, and the time until CodeBuild starts a build." in text


def test_the_plan_has_what_a_change_of_additions_costs_where_there_are_any() -> None:
    measured = json.loads((ROOT / additions_builds().result).read_text(encoding="utf-8"))
    assert additions_builds().date.isoformat() == measured["date"][:10]
    group = {"name": "train", "instance_type": "p5.48xlarge", "count": 1}
    sections = {"region": "us-west-2", "zones": ["usw2-az1"], "node_groups": [group]}
    without = plan_document(Platform.model_validate(sections), CATALOGUE)
    assert without["additions"] is None
    added = {"packages": {"apt": ["numactl"]}}
    document = plan_document(Platform.model_validate(sections | {"images": {"extra": added}}), CATALOGUE)
    assert (
        document["additions"]
        == plan_document(Platform.model_validate(sections | {"image": added}), CATALOGUE)["additions"]
    )
    figures = dict(measured["figures"])
    assert document["additions"]["base_bytes"] == figures.pop("base_bytes")
    shown = {tuple(each[key] for key in ("image_seconds", "bytes")): each for each in document["additions"]["changes"]}
    for build in (each for each in figures.values() if isinstance(each, dict)):
        change = shown.pop((build["image_seconds"], build["bytes"]))
        # A stage that has nothing to build still ran for a tenth of a second.
        assert change["additions_seconds"] == pytest.approx(build["additions_seconds"], abs=0.2)
    assert shown == {}
    costs = [each["additions_seconds"] for each in document["additions"]["changes"]]
    assert costs == sorted(costs)
    text = plan_text(document)
    assert "\na first Python package  " in text and "275 s" in text and "base of 2,828 MB" in text
    assert "change of your additions" not in plan_text(without)


def test_the_plan_lists_several_images_and_builds_one_after_the_other_on_the_same_base() -> None:
    sections = {
        "region": "us-west-2",
        "zones": ["usw2-az1", "usw2-az2"],
        "node_groups": [
            {"name": "train", "instance_type": "p5.48xlarge", "count": 1},
            {"name": "work", "instance_type": "g6e.8xlarge", "count": 1, "image": "develop"},
        ],
        "images": {"develop": {"base": "devel"}, "extra": {"packages": {"apt": ["numactl"]}}},
    }
    document = plan_document(Platform.model_validate(sections), CATALOGUE)
    assert [(each["name"], each["groups"], each["base"], each["added"]) for each in document["images"]] == [
        ("image", ["train"], "its own", False),
        ("develop", ["work"], "its own", False),
        ("extra", [], "that of image", True),
    ]
    longest = [step["step"] for step in document["deploy"]["critical_path"]]
    assert longest == ["repositories", "training image", "image extra"]
    assert "\nextra    cuda  none               that of image  yes\n" in plan_text(document)


def test_a_plan_for_neuron_has_no_figures_of_another_image() -> None:
    group = {"name": "train", "instance_type": "trn1.32xlarge", "count": 1}
    image = {"base": f"example.org/neuron:1@sha256:{'0' * 64}"}
    sections = {"region": "us-west-2", "zones": ["usw2-az1"], "node_groups": [group], "image": image}
    assert plan_document(Platform.model_validate(sections), CATALOGUE)["image"] is None
