"""`hyperpod`: the HyperPod cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainway.spec.sections.fields import KmsKey
from trainway.spec.values import Matches, Section

# The form that the service takes, field by field: CronScheduleExpression in the registry's schema of
# AWS::SageMaker::Cluster, as cfn-lint 1.58.0 carries it (read 2026-11-21).
CRON = (
    r"cron\(([0-5]?[0-9]|) ([01]?[0-9]|2[0-3]) (0?[1-9]|[12][0-9]|3[01]|\?) (0?[1-9]|1[0-2]|\*|\*/([1-9]|1[0-2])|) "
    r"(MON|TUE|WED|THU|FRI|SAT|SUN|[1-7]|\?|L|[1-7]#[1-5]|[1-7]L) (20[2-9][0-9]|\*|)\)"
)


class Patching(Section):
    """The section `patching`: when HyperPod brings nodes to a new image: at set times, or when no job runs on them."""

    schedule: (
        Annotated[
            str,
            Matches(
                CRON,
                "it is not a schedule",
                "write it as in cron(0 3 ? * SUN *): minute, hour, day of the month, month, day of the week, year",
            ),
        ]
        | None
    ) = Field(None, description="A cron expression, in UTC, for any new image; jobs that run then are interrupted.")
    strategy: Literal["when-idle", "when-all-idle"] | None = Field(
        None,
        description="Instead of a schedule, on EKS: HyperPod's security patches, three weeks after each is out, for "
        "every node when it is idle, or for a group's nodes together when all are. For up to a day nodes that wait for "
        "that take no new jobs. Groups with an image_id are left alone.",
    )
    batch: int = Field(1, ge=1, description="With a schedule, on EKS: nodes of a group that are updated at a time.")
    wait_minutes: int = Field(
        15, ge=0, le=60, description="With a schedule, on EKS: how long a batch is watched before the next one."
    )
    # Only a permission for all alarms of the account would show composite ones:
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_DescribeAlarms.html (read 2026-11-21)
    rollback_alarms: tuple[str, ...] = Field(
        (),
        max_length=10,
        description="With a schedule, on EKS: CloudWatch alarms on metrics that take an update back when they ring.",
    )


class HyperPod(Section):
    """The HyperPod cluster, for the orchestrators hyperpod-eks and hyperpod-slurm."""

    # Only amzn-sagemaker-checkpointing reads HyperPod's tier, and it unpickles what one service gives to the jobs of
    # all teams: _read_metadata_for_step in reader.py of version 1.1.3, and config/in_memory_client.py for the service's
    # address (Python Package Index, read 2026-11-22).
    removed_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "checkpoint_memory_percent": (
            "it reserved memory of every node that no job used: the job keeps checkpoints in its own pods' memory",
            "take the key away, and write memory_every below checkpoint in the job file, for example "
            "checkpoint: {memory_every: 50}",
        )
    }

    node_recovery: bool = Field(True, description="Replace or reboot failed nodes automatically.")
    volume_key: KmsKey | None = Field(
        None,
        description="The KMS key that encrypts the nodes' volumes, on EKS. Its policy leaves it to IAM who uses it; a "
        "node group that exists cannot change it. Default: a key of AWS's own.",
    )
    deep_health_checks: tuple[Literal["InstanceStress", "InstanceConnectivity"], ...] = Field(
        ("InstanceStress", "InstanceConnectivity"),
        description="What new accelerated nodes go through before they take jobs; under Slurm those with GPUs.",
    )
    patching: Patching | None = Field(
        None, description="Automatic updates of the nodes' image. null: no automatic updates."
    )
    autoscaling: bool = Field(
        False,
        description="HyperPod runs Karpenter, which makes and removes nodes by the pods that wait, on EKS: of groups "
        "whose count is 0 and that have no training plan. Their nodes go through no deep health checks.",
    )
    training_operator: bool = Field(False, description="The HyperPod training operator, an EKS add-on.")
    observability: bool = Field(
        False,
        description="Metrics of nodes, devices, fabric and jobs, an EKS add-on that writes to a workspace of Amazon "
        "Managed Service for Prometheus, made with it; the Grafana that shows them is yours.",
    )
    task_governance: bool | None = Field(
        None, description="Quotas and priorities between teams, an EKS add-on. Default: where the file names teams."
    )
