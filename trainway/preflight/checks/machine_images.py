"""Machine images of the nodes: EKS's own, by their public parameters, and yours."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.kubernetes.ami_releases import groups_with_releases, parameter
from trainway.spec.kubernetes.kubernetes_steps import deployed_version

# Of one call of ssm:GetParameters.
AT_ONCE = 10


@check("ssm:GetParameters", "ec2:DescribeImages")
def machine_images(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """EKS publishes an AMI for each node group and Kubernetes version, and each AMI of yours is available."""
    platform = inquiry.platform
    version = deployed_version(platform)
    wanted = dict[str, list[str]]()
    for name, instance in groups_with_releases(platform, inquiry.catalogue):
        wanted.setdefault(parameter(version, instance), []).append(name)
    names = sorted(wanted)
    for start in range(0, len(names), AT_ONCE):
        answer = inquiry.aws.ask("ssm", "get_parameters", Names=names[start : start + AT_ONCE]) or {}
        for name in answer.get("InvalidParameters", []):
            yield error(
                f"EKS publishes no AMI for {' and '.join(wanted[name])} with Kubernetes {version}",
                why=f"the public parameter {name} does not exist in {inquiry.aws.region}",
                fix="write another Kubernetes version",
                key=("kubernetes", "version"),
            )
    for index, group in enumerate(platform.node_groups):
        if group.image_id is not None:
            yield from _own(inquiry, group.image_id, group.instance_type, index)


def _own(inquiry: Inquiry, identifier: str, instance_type: str, index: int) -> Iterator[AccountFinding]:
    key = ("node_groups", index, "image_id")
    absent = ["InvalidAMIID.NotFound", "InvalidAMIID.Unavailable", "InvalidAMIID.Malformed"]
    answer = inquiry.aws.ask("ec2", "describe_images", ImageIds=[identifier], absent=absent)
    found = next(iter(answer["Images"]), None) if answer else None
    if found is None:
        yield error(
            f"there is no AMI {identifier}",
            why=f"EC2 lists none with this ID for account {inquiry.aws.number} in {inquiry.aws.region}",
            fix="write the id of an AMI of this Region, or share it with this account",
            key=key,
        )
        return
    if found.get("State", "available") != "available":
        yield error(f"the AMI {identifier} is {found['State']}", why="no node starts from it", fix="wait", key=key)
    architecture = inquiry.catalogue[instance_type].architecture
    if found.get("Architecture", architecture) != architecture:
        yield error(
            f"the AMI {identifier} is for {found['Architecture']}",
            why=f"{instance_type} has processors of {architecture}",
            fix=f"write an AMI for {architecture}",
            key=key,
        )
