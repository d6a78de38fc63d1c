"""The part of KubeRay's definition of RayJob by which the tests read one, and the way to take it from the definition.

No registry that the tests reach has the definition, which has 1.3 MB, most of it copies of the pod template. The part
leaves out pod templates, which the schema of Kubernetes reads, and what a launch never renders. A reader of the part
therefore refuses more than the definition does.

    python -m tests.seams.kubernetes.ray_definition ray.io_rayjobs.yaml
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("ray_job.yaml")
VERSION = "v1"
# Of `rayClusterSpec`, or of a group of nodes.
NOT_RENDERED = {
    "autoscalerOptions",
    "enableIngress",
    "gcsFaultToleranceOptions",
    "headService",
    "historyServerOptions",
    "networkPolicy",
    "scaleStrategy",
    "serviceType",
    "tlsOptions",
}
HEAD = """\
# The part of a published definition that tests/seams/kubernetes/ray_definition.py takes. Do not edit.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/config/crd/bases/ray.io_rayjobs.yaml (read 2026-11-23,
# Apache License 2.0)
"""


def part_of(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of `spec`, without descriptions, pod templates, and what a launch does not render."""
    [version] = [each for each in definition["spec"]["versions"] if each["name"] == VERSION]
    spec: dict[str, Any] = _part(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return spec


def _part(node: Any) -> Any:
    if isinstance(node, list):
        return [_part(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "containers" in node.get("properties", {}).get("spec", {}).get("properties", {}):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    texts = [key for key, value in node.items() if key == "description" and isinstance(value, str)]
    return {key: _part(value) for key, value in node.items() if key not in texts and key not in NOT_RENDERED}


if __name__ == "__main__":
    published = yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8"))
    text = yaml.safe_dump(part_of(published), default_flow_style=None, width=140)
    FILE.write_text(HEAD + text, encoding="utf-8")
