"""The events of AWS that people of a platform are told of, in words.

docs/events.md lists them. Sources of the fields: the user guides of SageMaker HyperPod, EC2, EC2 Auto Scaling,
CodePipeline, and AWS Health, beside each kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import CapacityBlock
from trainway.spec.sections.orchestrator import Orchestrator

# The delivery pipelines of a platform, besides those of images.
DELIVERIES = ("cluster", "mirror", "autoscaling")
# The prefix below which the runbook keeps what it has told. tell_people.py, which is sent as a whole, has it, too.
TOLD_PREFIX = "events/"
RESUMES = (
    "A run whose job restarts continues from its newest checkpoint when it has its nodes again. "
    "Otherwise resume it with `trainway resume`."
)


@dataclass(frozen=True)
class EventKind:
    """A kind of event.

    `pattern` is that of EventBridge. `paths` has the values of the event that the words name, each of which an event
    can lack or have null. `happened` and `next` depend on a value if they are dictionaries `{"by": NAME, "words":
    {VALUE: …, "*": …, "": …}}`, with "*" for any other value, and "" for none and for all that are left. `node` names
    the value that is the ID of an instance, so that its runs are looked up. People are told once of several events
    within minutes in which the values of the names `same` are equal, by default all. With `tagged`, an event counts
    only if what the value names has the tag of the platform's EKS cluster.
    """

    name: str
    pattern: Mapping[str, Any]
    paths: Mapping[str, str]
    happened: str | Mapping[str, Any]
    next: str | Mapping[str, Any]
    node: str = ""
    same: tuple[str, ...] = ()
    tagged: tuple[Literal["instance", "group"], str] | None = None
    source: str = ""


def events_queue(platform: str) -> str:
    """Return the name of the queue of the events that people of a platform are told of."""
    return f"{platform}-events"


def event_kinds(platform: Platform) -> tuple[EventKind, ...]:
    """Return the kinds of events that people of a platform are told of."""
    found = [*_pipelines(platform), _health()]
    if platform.orchestrator.is_hyperpod:
        found += _hyperpod(platform)
    if platform.orchestrator is Orchestrator.EKS:
        found += _eks(platform)
    found += _capacity_blocks(platform)
    return tuple(found)


def _hyperpod(platform: Platform) -> tuple[EventKind, ...]:
    """Return the events of a HyperPod cluster."""
    return _unhealthy_node(platform), _cluster_error(platform), _cluster_state(platform)


def _unhealthy_node(platform: Platform) -> EventKind:
    recovers = platform.hyperpod_or_default.node_recovery
    by_hand = "Nothing. Replace it: `aws sagemaker batch-replace-cluster-nodes`."
    return EventKind(
        "NodeUnhealthy",
        {
            "source": ["aws.sagemaker"],
            "detail-type": ["SageMaker HyperPod Cluster Node Health Event"],
            "detail": {
                "ClusterName": [platform.name],
                "InstanceId": [{"prefix": "i-"}],
                "HealthSummary": {"HealthStatus": [{"anything-but": ["Healthy"]}]},
            },
        },
        {
            "Node": "$.detail.InstanceId",
            "Reason": "$.detail.HealthSummary.HealthStatusReason",
            "Action": "$.detail.HealthSummary.RepairAction",
        },
        "Node {Node} is unhealthy: {Reason}",
        {
            "by": "Action",
            "words": {
                "Replace": f"HyperPod replaces the node. {RESUMES}" if recovers else by_hand,
                "Reboot": f"HyperPod reboots the node. {RESUMES}" if recovers else by_hand,
                "None": "HyperPod does nothing. " + by_hand.removeprefix("Nothing. "),
                "": "HyperPod names the action {Action}. " + RESUMES,
            },
        },
        node="Node",
        # One fault makes several events, whose reasons can differ.
        same=("Node", "Action"),
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html",
    )


def _cluster_error(platform: Platform) -> EventKind:
    """Return the errors of a cluster, which HyperPod emits for clusters with continuous provisioning."""
    return EventKind(
        "ClusterFailed",
        {
            "source": ["aws.sagemaker"],
            "detail-type": ["SageMaker HyperPod Cluster Event"],
            "detail": {"EventDetails": {"ClusterName": [platform.name], "EventLevel": ["Error"]}},
        },
        {
            "Node": "$.detail.EventDetails.InstanceId",
            "Group": "$.detail.EventDetails.InstanceGroupName",
            "Reason": "$.detail.EventDetails.Description",
        },
        {
            "by": "Node",
            "words": {
                "": "The HyperPod cluster reports an error: {Reason}",
                "*": "Node {Node} of group {Group} failed: {Reason}",
            },
        },
        {
            "by": "Node",
            "words": {
                "": "`aws sagemaker list-cluster-events` has the details. Nodes that run continue.",
                "*": "HyperPod tries again. If the reason is capacity, it tries until there is some: use another zone, "
                "type, or kind of capacity. `aws sagemaker list-cluster-events` has the details.",
            },
        },
        node="Node",
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-cluster-events-reference.html",
    )


def _cluster_state(platform: Platform) -> EventKind:
    return EventKind(
        "ClusterState",
        {
            "source": ["aws.sagemaker"],
            "detail-type": ["SageMaker HyperPod Cluster State Change"],
            "detail": {"ClusterName": [platform.name], "ClusterStatus": ["Failed", "RollingBack"]},
        },
        {"State": "$.detail.ClusterStatus"},
        "The HyperPod cluster is in the state {State}.",
        "`aws sagemaker describe-cluster` has the reason. Deploy again when it is mended.",
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html",
    )


def _eks(platform: Platform) -> Iterator[EventKind]:
    """Yield the events of the Auto Scaling groups of managed node groups, because EKS itself emits none."""
    yield EventKind(
        "LaunchFailed",
        {
            "source": ["aws.autoscaling"],
            "detail-type": ["EC2 Instance Launch Unsuccessful"],
            "detail": {"AutoScalingGroupName": [{"prefix": "eks-"}]},
        },
        {"Group": "$.detail.AutoScalingGroupName", "Reason": "$.detail.StatusMessage"},
        "A node of {Group} could not be launched: {Reason}",
        "EC2 Auto Scaling tries again. If the reason is capacity, use another zone, type, or kind of capacity. If it "
        "is free addresses, the subnet is full: `trainway plan` shows what it holds.",
        tagged=("group", "Group"),
        source="https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-event-reference.html",
    )
    if any(group.capacity == "spot" for group in platform.node_groups):
        yield EventKind(
            "SpotInterrupted",
            {
                "source": ["aws.ec2"],
                "detail-type": ["EC2 Spot Instance Interruption Warning"],
                "detail": {"instance-id": [{"prefix": "i-"}]},
            },
            {"Node": "$.detail.instance-id"},
            "EC2 takes the Spot instance {Node} back in two minutes.",
            f"EKS drains the node, and launches another one if there is capacity. {RESUMES}",
            node="Node",
            tagged=("instance", "Node"),
            source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html",
        )


def _capacity_blocks(platform: Platform) -> Iterator[EventKind]:
    """Yield the events of Capacity Blocks, whose names differ between copies of AWS's page."""
    groups = [group for group in platform.node_groups if isinstance(group.capacity, CapacityBlock)]
    blocks = sorted({group.capacity.capacity_block for group in groups if isinstance(group.capacity, CapacityBlock)})
    if not blocks:
        return
    yield EventKind(
        "CapacityBlock",
        {
            "source": ["aws.ec2"],
            "detail-type": [{"prefix": "Capacity Block"}],
            "detail": {"capacity-reservation-id": blocks},
        },
        {"Block": "$.detail.capacity-reservation-id", "Kind": "$.detail-type"},
        "{Kind}: {Block}",
        "A block that is delivered gets its nodes. Of one that expires, EC2 terminates the nodes from 30 minutes "
        "before its end on: stop the runs, or let them save.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-monitor.html",
    )


def _pipelines(platform: Platform) -> Iterator[EventKind]:
    name = platform.name
    images = [f"{name}-image" if each == DEFAULT_IMAGE else f"{name}-image-{each}" for each in platform.image_names]
    yield EventKind(
        "PipelineFailed",
        {
            "source": ["aws.codepipeline"],
            "detail-type": ["CodePipeline Pipeline Execution State Change"],
            "detail": {"pipeline": [*(f"{name}-{each}" for each in DELIVERIES), *images], "state": ["FAILED"]},
        },
        {"Pipeline": "$.detail.pipeline", "Execution": "$.detail.execution-id"},
        "The pipeline {Pipeline} failed.",
        "A deploy that waits for it fails with the reason. Mend it, and deploy again.",
        source="https://docs.aws.amazon.com/codepipeline/latest/userguide/detect-state-changes-cloudwatch-events.html",
    )


def _health() -> EventKind:
    """Return AWS's own reports of problems. FSx has no events of its own."""
    return EventKind(
        "HealthIssue",
        {
            "source": ["aws.health"],
            "detail-type": ["AWS Health Event"],
            "detail": {
                "service": ["EC2", "EKS", "FSX", "SAGEMAKER"],
                "eventTypeCategory": ["issue", "scheduledChange"],
                "statusCode": ["open", "upcoming"],
            },
        },
        {"Service": "$.detail.service", "Code": "$.detail.eventTypeCode"},
        "AWS Health reports {Code} of {Service} for this account.",
        "The AWS Health Dashboard says which resources are affected, and from when on.",
        source="https://docs.aws.amazon.com/health/latest/ug/aws-health-events-eventbridge-schema.html",
    )
