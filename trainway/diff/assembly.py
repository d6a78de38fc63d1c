"""Synthesize the stacks of a platform file: run the CDK app as a separate process, and read the templates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Final

from trainway.diff.tokens import StackTemplate
from trainway.parts.checkout import CHECKOUT, child_environment
from trainway.parts.endings import run_to_end
from trainway.spec.errors import usage_error
from trainway.spec.extension import EXTENDED_FILE

# The context that the CDK's command line adds to the project's own.
CONTEXT: Final = {
    "aws:cdk:bundling-stacks": ["**"],
    "aws:cdk:enable-asset-metadata": True,
    "aws:cdk:enable-path-metadata": True,
}


@dataclass(frozen=True)
class SynthesizedStack:
    """A stack as the CDK app gives it. `text` is its template, as the deploy sends it.

    `url` is the S3 object that the deploy puts the template in. The roles are those of the CDK's bootstrap; each may be
    empty, and each has placeholders for the account and the partition.
    """

    name: str
    text: str
    after: tuple[str, ...] = ()
    url: str = ""
    deploy_role: str = ""
    publishing_role: str = ""
    execution_role: str = ""

    @property
    def template(self) -> StackTemplate:
        """Return the template of the stack as plain data."""
        document: StackTemplate = json.loads(self.text)
        return document


def extended_resources(assembly: Path) -> dict[str, dict[str, str]]:
    """Return which resources the platform's extension added, changed, or removed, by stack and logical ID."""
    file = assembly / EXTENDED_FILE
    stacks: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))["stacks"] if file.exists() else {}
    return stacks


def synthesize(platform_file: Path, out: Path, *, account: str, region: str, validate: bool = True) -> None:
    """Write the cloud assembly of a platform file to the directory `out`.

    Without `validate`, the CDK's checks of the templates are left out. Raises UsageError with the app's own words if it
    fails.
    """
    environment = {
        **os.environ,
        **child_environment(),
        "CDK_OUTDIR": str(out.resolve()),
        "CDK_CONTEXT_JSON": json.dumps({**CONTEXT, "platform": str(platform_file)}),
        "CDK_DEFAULT_ACCOUNT": account,
        "CDK_DEFAULT_REGION": region,
    }
    if not validate:
        environment["CDK_VALIDATION"] = "false"
    node = Path(sys.executable).with_name("node")
    if node.exists():
        environment.setdefault("JSII_NODE", str(node))
    command = [sys.executable, str(CHECKOUT / "app.py")]
    ran = run_to_end(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, environment=environment)
    if ran.returncode != 0:
        lines = "\n".join((ran.stderr or ran.stdout).strip().splitlines()[-20:])
        raise usage_error(
            f"{platform_file} gives no templates",
            why=f"the CDK app ended with {ran.returncode}. Its last lines are:\n{lines}",
            fix=f"`trainway check {platform_file}` shows what is wrong with the file",
        )


def read_assembly(directory: Path) -> dict[str, SynthesizedStack]:
    """Return the stacks of a cloud assembly by name, each after those that it is deployed after."""
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    stacks = {name: each for name, each in manifest.items() if each["type"] == "aws:cloudformation:stack"}
    after = {
        name: [below for below in each.get("dependencies", []) if below in stacks] for name, each in stacks.items()
    }
    publishing = {name: _publishing_role(directory, manifest, each) for name, each in stacks.items()}
    return {
        name: _stack(directory, name, stacks[name], tuple(after[name]), publishing[name])
        for name in TopologicalSorter(after).static_order()
    }


def _stack(
    directory: Path, name: str, artifact: dict[str, Any], after: tuple[str, ...], publishing_role: str
) -> SynthesizedStack:
    properties = artifact["properties"]
    return SynthesizedStack(
        name=properties.get("stackName", name),
        text=(directory / properties["templateFile"]).read_text(encoding="utf-8"),
        after=after,
        url=properties.get("stackTemplateAssetObjectUrl", ""),
        deploy_role=properties.get("assumeRoleArn", ""),
        publishing_role=publishing_role,
        execution_role=properties.get("cloudFormationExecutionRoleArn", ""),
    )


def _publishing_role(directory: Path, manifest: dict[str, Any], artifact: dict[str, Any]) -> str:
    """Return the role that puts a stack's template into the bootstrap's bucket, or an empty text."""
    for name in artifact.get("dependencies", []):
        each = manifest.get(name, {})
        if each.get("type") == "cdk:asset-manifest":
            assets = json.loads((directory / each["properties"]["file"]).read_text(encoding="utf-8"))
            for file in assets["files"].values():
                if file["source"]["path"] == artifact["properties"]["templateFile"]:
                    destination = next(iter(file["destinations"].values()))
                    return str(destination.get("assumeRoleArn", ""))
    return ""
