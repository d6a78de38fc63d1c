"""Scripts that EC2 nodes of EKS fetch when they boot, from parameters whose names never change.

A script in the user data is part of the launch template, and EKS replaces every node of a group when its launch
template changes. A parameter changes in place: nodes that boot afterwards run the new script.
"""

from __future__ import annotations

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from trainway.parts.checkout import CHECKOUT
from trainway.spec.platform import Platform

LUSTRE_TOOLS = "command -v lnetctl >/dev/null || dnf install --assumeyes --quiet lustre-client"
# EKS's images have the AWS CLI, and the policy AmazonSSMManagedInstanceCore, as moto 5.2.5 carries it, lets a node read
# parameters.
# https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2023/provisioners/install-worker.sh (read 2026-11-22)
LUSTRE_OVER_EFA = """\
#!/usr/bin/env bash
set -euo pipefail
{tools}
script=$(mktemp)
for _ in {{1..30}}; do
  if aws ssm get-parameter --region {region} --name {name} --query Parameter.Value --output text >"$script"; then
    exec bash "$script" {interfaces}
  fi
  sleep 10
done
echo "{name} cannot be read, so the file system is reached over TCP" >&2
exit 1
"""


def lustre_script_name(platform_name: str) -> str:
    """Return the name of the parameter that holds lifecycle_scripts/lustre_efa.sh."""
    return f"/trainway/{platform_name}/nodes/lustre-efa.sh"


def lustre_script(scope: Construct, id: str, *, platform: Platform) -> ssm.CfnParameter:
    """Create the parameter. Its stack is deployed before every node that reads it."""
    return ssm.CfnParameter(
        scope,
        id,
        name=lustre_script_name(platform.name),
        type="String",
        # A standard parameter holds 4 KB. The script takes 3 KB.
        # https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html
        # (read 2026-11-22)
        tier="Intelligent-Tiering",
        description="What a node of EKS runs when it boots, so that it reaches FSx for Lustre over EFA.",
        value=(CHECKOUT / "lifecycle_scripts" / "lustre_efa.sh").read_text(encoding="utf-8"),
    )


def lustre_over_efa(interfaces: int, *, platform_name: str, region: str) -> str:
    """Return the user data script that installs Lustre's tools, which EKS's images lack, and fetches the other script.

    The tools come from Amazon Linux's own repository, which is in S3 and therefore reachable from a closed network.
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html (read 2026-11-21)
    """
    name = lustre_script_name(platform_name)
    return LUSTRE_OVER_EFA.format(tools=LUSTRE_TOOLS, name=name, region=region, interfaces=interfaces)
