"""`python -m tests.picture` generates the picture of the stacks in docs/design.md from the stacks."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.synthesis import ROOT, make_app, platform_of, role_of

if TYPE_CHECKING:
    from aws_cdk.cx_api import CloudArtifact

EXAMPLE = ROOT / "examples" / "hyperpod-eks-p5.yaml"
PAGE = ROOT / "docs" / "design.md"
BETWEEN = re.compile(r"(?<=<!-- picture -->\n).*(?=<!-- /picture -->)", re.DOTALL)
# Wires between the things that a reader looks for.
PLUMBING = {
    "AccessEntry", "BucketPolicy", "EIP", "FlowLog", "InternetGateway", "LogGroup", "Policy", "PodIdentityAssociation",
    "Role", "Route", "RouteTable", "SecurityGroupEgress", "SecurityGroupIngress", "SubnetRouteTableAssociation",
    "Subscription", "TopicPolicy", "VPCGatewayAttachment", "WaitConditionHandle",
}  # fmt: skip


def draw() -> str:
    """A Mermaid flowchart: a box a stack with what is in it, an arrow for each stack that another one stands on."""
    lines, arrows = ["```mermaid", "flowchart LR"], []
    with tempfile.TemporaryDirectory() as out:
        stacks = make_app(EXAMPLE, Path(out)).synth().stacks
        platform = platform_of(stack.stack_name for stack in stacks)
        for stack in stacks:
            role = role_of(stack.stack_name, platform)
            kinds = Counter(resource["Type"].split("::", 1)[1] for resource in stack.template["Resources"].values())
            shown = [
                kind.replace("::", " ") + (f" ×{count}" if count > 1 else "")
                for kind, count in sorted(kinds.items())
                if kind.split("::")[-1] not in PLUMBING
            ]
            lines.append(f'  {role}["<b>{stack.stack_name}</b><br/>{"<br/>".join(shown)}"]')
            below = {each.id for each in _below(stack)}
            implied = {each.id for one in _below(stack) for each in _below(one)}
            arrows += [f"  {role_of(name, platform)} --> {role}" for name in sorted(below - implied)]
    return "\n".join([*lines, *arrows, "```", ""])


def _below(stack: CloudArtifact) -> list[CloudArtifact]:
    """The stacks that a stack stands on, without the assets that are put up before it."""
    return [each for each in stack.dependencies if not each.id.endswith(".assets")]


def main() -> None:
    """Replaces what stands between the page's markers."""
    os.environ["CDK_VALIDATION"] = "false"
    PAGE.write_text(BETWEEN.sub(lambda _: draw(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
