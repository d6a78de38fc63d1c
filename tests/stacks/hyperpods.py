"""A HyperPod platform to change one key of, and what its cluster stack comes to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.people import with_people
from tests.synthesis import Template, resources, templates_of

PLATFORM: dict[str, Any] = {
    "name": "full",
    "region": "us-east-1",
    "zones": ["use1-az4", "use1-az1"],
    "orchestrator": "hyperpod-eks",
    "node_groups": [
        {"name": "train", "instance_type": "p5.48xlarge", "count": 1, "max_count": 8},
        {"name": "data", "instance_type": "m7i.8xlarge", "count": 0, "max_count": 2},
    ],
}


def write(tmp_path: Path, **changes: Any) -> Path:
    """The platform's file, with other keys in the place of its own."""
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(with_people(PLATFORM | changes)))
    return file


def cluster(tmp_path: Path, **changes: Any) -> Template:
    """The cluster stack's template."""
    return templates_of(write(tmp_path, **changes))["cluster"]


def hyperpod(template: Template) -> dict[str, Any]:
    """The properties of the HyperPod cluster."""
    (found,) = resources(template, "AWS::SageMaker::Cluster").values()
    return dict(found)


def statements(template: Template, role: str, action: str | None = None) -> list[dict[str, Any]]:
    """What the policies of a role, by the start of its logical id, say about an action; None: all that they say."""
    return [
        statement
        for policy in resources(template, "AWS::IAM::Policy").values()
        if any(each["Ref"].startswith(role) for each in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
        if action is None or action in statement["Action"]
    ]
