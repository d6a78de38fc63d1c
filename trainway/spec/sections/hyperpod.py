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
    """`patching`: when HyperPod updates the image of the nodes."""

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
    ) = Field(
        None, description="Cron expression in UTC at which HyperPod installs a new image. Running jobs are interrupted."
    )
    strategy: Literal["when-idle", "when-all-idle"] | None = Field(
        None,
        description="On EKS, instead of a schedule. HyperPod installs security patches three weeks after their "
        "release. when-idle updates each node when it is idle. when-all-idle updates the nodes of a group together "
        "when all are idle. Nodes that wait for the update take no new jobs for up to a day. Groups with an image_id "
        "are not updated.",
    )
    batch: int = Field(
        1, ge=1, description="On EKS, with a schedule. Number of nodes of a group that are updated at the same time."
    )
    wait_minutes: int = Field(
        15,
        ge=0,
        le=60,
        description="On EKS, with a schedule. Minutes for which HyperPod watches a batch before it updates the next "
        "one.",
    )
    # Only a permission for all alarms of the account would show composite ones:
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_DescribeAlarms.html (read 2026-11-21)
    rollback_alarms: tuple[str, ...] = Field(
        (),
        max_length=10,
        description="On EKS, with a schedule. Names of CloudWatch metric alarms that roll the update back when they "
        "go off.",
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
        description="On EKS. ARN of the KMS key that encrypts the nodes' volumes. Its key policy must delegate "
        "permissions to IAM. An existing node group cannot change it. Default: a key that AWS owns.",
    )
    deep_health_checks: tuple[Literal["InstanceStress", "InstanceConnectivity"], ...] = Field(
        ("InstanceStress", "InstanceConnectivity"),
        description="Deep health checks of new accelerated nodes before they take jobs. Under Slurm, only nodes with "
        "GPUs are checked.",
    )
    patching: Patching | None = Field(
        None, description="Automatic updates of the nodes' image. null: no automatic updates."
    )
    autoscaling: bool = Field(
        False,
        description="On EKS. HyperPod runs Karpenter, which adds and removes nodes for pending pods. It manages the "
        "groups whose count is 0 and that have no training plan. These nodes skip the deep health checks.",
    )
    training_operator: bool = Field(False, description="Install the HyperPod training operator, an EKS add-on.")
    observability: bool | None = Field(
        None,
        description="With the orchestrator hyperpod-eks. Collect metrics, whatever `observability.metrics` says. "
        "Default: as `observability.metrics` says.",
    )
    spaces: bool = Field(
        False,
        description="Install SageMaker Spaces on EKS: JupyterLab and Code Editor in the cluster, also from VS Code. "
        "AWS Systems Manager charges for each space, because it opens the connections of VS Code.",
    )
    task_governance: bool | None = Field(
        None,
        description="Install the EKS add-on for quotas and priorities between teams. Default: true if the file has "
        "teams.",
    )
