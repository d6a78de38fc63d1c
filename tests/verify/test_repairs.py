"""A failed check of a node leads to a repair request, which an emulated SageMaker answers after a confirmation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.slurm.requests import CATALOGUE, IMAGE
from tests.synthesis import ROOT
from tests.verify.test_checks import P5, nccl, node
from trainway import verify
from trainway.cli import app
from trainway.commands.repairing import repair_nodes
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.spec.errors import UsageError
from trainway.spec.handoff import BuiltImage, HandOff, Nodes
from trainway.spec.handoff_names import image_parameter_name, parameter_name
from trainway.spec.loader import load_platform
from trainway.verify.cluster_nodes import MOST_NODES, repair_requests
from trainway.verify.repairs import FaultyNode, Repair, choose_repairs
from trainway.verify.results import Result, Status

EKS, SLURM = ROOT / "examples" / "eks-p5.yaml", ROOT / "examples" / "hyperpod-slurm-p5en.yaml"
PLATFORM = load_platform(SLURM)
ON_EKS = hand_off_of(platform_named("governance")).model_copy(update={"region": PLATFORM.region})
CLUSTER = ON_EKS.cluster.name
FAULT = {"name": "memory", "results": [{"entity_group": "GPU", "entity_id": 3, "status": "Fail", "warnings": []}]}
DCGM = {"DCGM Diagnostic": {"test_categories": [{"tests": [FAULT]}]}}
Facts = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running(region=PLATFORM.region) as emulator:
        yield emulator


@pytest.fixture(autouse=True)
def aws(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)


def instance(number: int) -> str:
    return f"i-{number:017x}"


def summary(number: int, group: str = "train", status: str = "Running") -> dict[str, Any]:
    """Return the summary of a node as ListClusterNodes returns it, by botocore's model."""
    return {
        "InstanceGroupName": group,
        "InstanceId": instance(number),
        "InstanceType": "ml.p5.48xlarge",
        "LaunchTime": "2026-11-26T00:00:00+00:00",
        "InstanceStatus": {"Status": status},
        "PrivateDnsHostname": f"ip-10-0-16-{number}.us-west-2.compute.internal",
    }


def hold(emulator: Emulator, cluster: str, *nodes: dict[str, Any]) -> None:
    emulator.hold(cluster_nodes={cluster: list(nodes)}, denied=[])


def held(cluster: str) -> dict[str, str]:
    """Return the state of each instance, by its ID."""
    answer = boto3.client("sagemaker").list_cluster_nodes(ClusterName=cluster)
    return {each["InstanceId"]: each["InstanceStatus"]["Status"] for each in answer["ClusterNodeSummaries"]}


def results(nodes: Facts, *, network: Sequence[str] = ()) -> tuple[Result, ...]:
    """Return the results of the checks of P5 nodes. `nodes` has the deviating facts, and nodes of `network` use TCP."""
    text = "".join(
        node(name, index, **facts) + nccl(name, "Socket/0" if name in network else "Libfabric/0/GDRDMA")
        for index, (name, facts) in enumerate(nodes.items())
    )
    return verify.run_checks(verify.facts_of_log(text, verify.Expected(len(nodes), P5)))


def request(hand_off: HandOff, group: str = "train") -> Request:
    program = verify.probe_point(2).program
    return Request(program, "verify-1126", hand_off, IMAGE, allocate(program, hand_off, CATALOGUE, group))


def repaired(said: Sequence[Result], hand_off: HandOff = ON_EKS, wanted: str | None = None) -> dict[str, Any]:
    """Repair without asking, and return the document."""
    done = repair_nodes(said, request(hand_off), wanted, ask=False, send_none=False, as_json=True)
    return dict(done["repair"])


def on_eks(number: int) -> str:
    return f"hyperpod-{instance(number)}"


def chosen(said: Sequence[Result]) -> dict[str, Repair]:
    return {each.node: each.repair for each in choose_repairs(said)[0]}


def test_each_fault_of_a_node_leads_to_its_repair() -> None:
    said = results(
        {"gone": {"gpus": 7}, "ill": {"dcgm": DCGM}, "both": {"gpus": 7, "dcgm": DCGM}, "tcp": {}, "well": {}},
        network=["tcp"],
    )
    assert chosen(said) == {
        "gone": Repair.REBOOT,
        "ill": Repair.CHECK,
        "both": Repair.CHECK,
        "tcp": Repair.CHECK,
    }
    everything = choose_repairs(said, Repair.REPLACE)[0]
    assert {each.repair for each in everything} == {Repair.REPLACE} and len(everything) == 4


def test_no_node_is_repaired_for_a_shared_fault_of_all_nodes() -> None:
    said = results({"a": {"efa_devices": 0}, "b": {"efa_devices": 0, "nccl": "0.1"}}, network=["a", "b"])
    repairs, others = choose_repairs(said)
    assert repairs == ()
    reasons = {each.result.check: each.why for each in others}
    assert "all 2 nodes fail" in reasons["efa devices"] and "all 2 nodes fail" in reasons["nccl"]
    # The all-reduce did not end, and its result names no node.
    assert "--find-slow" in reasons["all-reduce"]
    # With one node, the command cannot know whether others fail, too.
    assert chosen(results({"a": {"efa_devices": 0}})) == {"a": Repair.REBOOT}
    # A lost GPU is a fault of its node, even if several nodes have lost one.
    assert set(chosen(results({"a": {"gpus": 7}, "b": {"gpus": 6}}))) == {"a", "b"}


def test_every_check_has_a_repair_or_a_reason() -> None:
    for check in ("nodes", "locked memory", "versions", "all-reduce", "clock", "probe"):
        (_, (other,)) = choose_repairs([Result(check, "a", Status.FAILED, "")])
        assert "no repair is known" not in other.why, check


def test_nodes_of_kubernetes_are_repaired_by_their_instances(
    emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    hold(emulator, CLUSTER, *map(summary, (1, 2, 3)))
    document = repaired(results({on_eks(1): {"gpus": 7}, on_eks(2): {"dcgm": DCGM}, on_eks(3): {}}))
    assert [(each["operation"], each["nodes"]) for each in document["requests"]] == [
        ("StartClusterHealthCheck", {instance(2): on_eks(2)}),
        ("BatchRebootClusterNodes", {instance(1): on_eks(1)}),
    ]
    assert document["requests"][0]["parameters"]["DeepHealthCheckConfigurations"] == [
        {"InstanceGroupName": "train", "InstanceIds": [instance(2)], "DeepHealthChecks": ["InstanceStress"]}
    ]
    assert document["sent"] and document["refused"] == []
    assert held(CLUSTER) == {
        instance(1): "Running",
        instance(2): "DeepHealthCheckInProgress",
        instance(3): "Running",
    }
    told = capsys.readouterr().err
    assert f"{on_eks(1)}  {instance(1)}  gpus: 7 of 8 GPUs" in told and "accepted" in told


def test_nodes_of_slurm_are_found_by_their_host_names_and_the_controller_is_not_replaced(emulator: Emulator) -> None:
    on_slurm = ON_EKS.model_copy(update={"orchestrator": "hyperpod-slurm"})
    hold(emulator, CLUSTER, summary(1), summary(2), summary(9, "controller"))
    said = results({"ip-10-0-16-1": {"gpus": 7}, "ip-10-0-16-2": {}, "ip-10-0-16-9": {"gpus": 7}})
    document = repaired(said, on_slurm, "replace")
    assert [(each["operation"], each["parameters"]) for each in document["requests"]] == [
        ("BatchReplaceClusterNodes", {"ClusterName": CLUSTER, "NodeIds": [instance(1)]})
    ]
    assert [each["node"] for each in document["not_repaired"] if each["check"] is None] == ["ip-10-0-16-9"]
    assert instance(1) not in held(CLUSTER) and {instance(2), instance(9)} < set(held(CLUSTER))


def test_a_node_that_sagemaker_refuses_to_repair_is_reported(emulator: Emulator) -> None:
    hold(emulator, CLUSTER, summary(1, status="SystemUpdating"), summary(2))
    document = repaired(results({on_eks(1): {"gpus": 7}, on_eks(2): {"gpus": 7}}))
    (refused,) = document["refused"]
    assert (refused["node"], refused["code"]) == (on_eks(1), "InvalidInstanceStatus")


def test_nodes_beyond_the_limit_of_a_request_are_sent_in_further_requests(emulator: Emulator) -> None:
    numbers = range(1, MOST_NODES + 3)
    hold(emulator, CLUSTER, *map(summary, numbers))
    wanted = [FaultyNode(on_eks(each), Repair.REPLACE, ()) for each in numbers]
    requests, unknown = repair_requests(wanted, ON_EKS, "train")
    assert [len(each.parameters["NodeIds"]) for each in requests] == [MOST_NODES, 2] and unknown == ()


def test_the_error_of_a_caller_without_permissions_names_them(emulator: Emulator) -> None:
    hold(emulator, CLUSTER, summary(1))
    emulator.hold(denied=["sagemaker:BatchRebootClusterNodes"])
    with pytest.raises(
        UsageError, match=r"BatchRebootClusterNodes of hyperpod-i-\S+ was refused\n(.|\n)*the caller needs"
    ):
        repaired(results({on_eks(1): {"gpus": 7}}))


def test_the_emulated_operations_refuse_what_the_model_refuses(emulator: Emulator) -> None:
    hold(emulator, CLUSTER, summary(1))
    sagemaker = boto3.client("sagemaker")
    with pytest.raises(ClientError, match="ResourceNotFound"):
        sagemaker.batch_reboot_cluster_nodes(ClusterName="nowhere", NodeIds=[instance(1)])
    with pytest.raises(ClientError, match="Either NodeIds or NodeLogicalIds"):
        sagemaker.batch_replace_cluster_nodes(ClusterName=CLUSTER)
    answer = sagemaker.batch_replace_cluster_nodes(ClusterName=CLUSTER, NodeIds=[instance(7)])
    assert [each["ErrorCode"] for each in answer["Failed"]] == ["InstanceIdNotFound"] and "Successful" not in answer
    incomplete: list[Any] = [{"InstanceGroupName": "train"}]
    with pytest.raises(ParamValidationError, match="DeepHealthChecks"):
        sagemaker.start_cluster_health_check(ClusterName=CLUSTER, DeepHealthCheckConfigurations=incomplete)
    without_botocore = boto3.client("sagemaker", config=_unchecked())
    with pytest.raises(ClientError, match="DeepHealthChecks"):
        without_botocore.start_cluster_health_check(ClusterName=CLUSTER, DeepHealthCheckConfigurations=incomplete)


def _unchecked() -> Any:
    from botocore.config import Config

    return Config(parameter_validation=False)


@pytest.fixture
def deployed(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> HandOff:
    """A platform under Slurm whose first node has lost a GPU. The output of the probe is the text of a log."""
    platform = PLATFORM
    group = platform.node_groups[0]
    known = Nodes(name=group.name, instance_type=group.instance_type, count=2, max_count=2)
    cluster = ON_EKS.cluster.model_copy(update={"name": platform.name})
    changes = {"platform": platform.name, "region": platform.region, "cluster": cluster, "node_groups": (known,)}
    hand_off = ON_EKS.model_copy(update={**changes, "orchestrator": "hyperpod-slurm", "image_parameter": None})
    ssm = boto3.client("ssm")
    image = BuiltImage(uri=hand_off.image_uri, pinned=IMAGE)
    for name, value in ((parameter_name(platform.name), hand_off), (image_parameter_name(platform.name), image)):
        ssm.put_parameter(Name=name, Value=value.model_dump_json(), Type="String", Overwrite=True)
    found = results({"ip-10-0-16-1": {"gpus": 7}, "ip-10-0-16-2": {}})
    monkeypatch.setattr(verify, "verify_nodes", lambda *_: found)
    emulator.hold(cluster_nodes={platform.name: [summary(1, group.name), summary(2, group.name)]}, denied=[])
    return hand_off


def run(*arguments: str, file: Path = SLURM) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["verify", f"--platform={file}", *arguments])
    if isinstance(done.exception, UsageError):
        return 2, str(done.exception)
    return done.exit_code, done.stdout


def test_a_dry_run_prints_the_requests_and_sends_none(deployed: HandOff) -> None:
    before = held(deployed.cluster.name)
    status, output = run("--repair", "--repair-with=replace", "--dry-run")
    assert status == 1 and f"ip-10-0-16-1  {instance(1)}  gpus: 7 of 8 GPUs" in output
    assert "BatchReplaceClusterNodes" in output and "is terminated with its volumes" in output
    assert "accepted" not in output and held(deployed.cluster.name) == before


def test_without_a_terminal_a_repair_requires_yes(deployed: HandOff) -> None:
    before = held(deployed.cluster.name)
    status, output = run("--repair", "--repair-with=replace")
    assert status == 2 and "add --yes" in output
    assert held(deployed.cluster.name) == before
    status, output = run("--repair", "--repair-with=replace", "--yes", "--json")
    document = json.loads(output)
    assert status == document["exit_status"] == 1 and document["repair"]["sent"]
    assert instance(1) not in held(deployed.cluster.name)


@pytest.mark.parametrize(
    ("arguments", "file", "reason"),
    [
        (["--repair"], EKS, "its orchestrator is eks"),
        (["--repair", "--run=x"], SLURM, "leave out --run"),
        (["--yes"], SLURM, "add --repair"),
        (["--repair-with=reboot"], SLURM, "add --repair"),
    ],
)
def test_what_cannot_be_repaired_is_refused_before_nodes_are_tested(
    arguments: list[str], file: Path, reason: str
) -> None:
    status, output = run(*arguments, file=file)
    assert status == 2 and reason in output
