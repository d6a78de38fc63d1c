"""Rewrite the schemas of what a node reads from what their projects publish.

`python -m tests.seams.nodes.refresh NODECONFIGS_YAML NODECONFIG_TYPES_GO KUBELET_TYPES_GO` takes the three files that
`SOURCES` names, at the revisions it names. It writes `nodeconfig.json` and `kubelet_configuration.json`: names, types,
and enumerations without descriptions, and the sources with their checksums.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
NODECONFIG, KUBELET = HERE / "nodeconfig.json", HERE / "kubelet_configuration.json"
NODEADM = "https://raw.githubusercontent.com/awslabs/amazon-eks-ami/v20260724/nodeadm"
SOURCES = (
    f"{NODEADM}/crds/node.eks.aws_nodeconfigs.yaml",
    f"{NODEADM}/api/v1alpha1/nodeconfig_types.go",
    "https://raw.githubusercontent.com/kubernetes/kubelet/v0.35.0/config/v1beta1/types.go",
)
FIELD = re.compile(r'^\s+\w+\s+(\S+)\s+`json:"(\w+)', re.MULTILINE)
TYPES = {
    "string": "string",
    "bool": "boolean",
    "int32": "integer",
    "int64": "integer",
    "float64": "number",
    "metav1.Duration": "string",
}


def nodeconfig(definition: str, types: str) -> dict[str, Any]:
    """Return the JSON Schema of a NodeConfig, in which unknown fields are refused."""
    (version,) = yaml.safe_load(definition)["spec"]["versions"]
    schema = _strict(version["schema"]["openAPIV3Schema"])
    gates = re.search(r"validation:Enum=\{(\w+(?:,\w+)*)\}\ntype Feature ", types)
    if gates is None:
        raise ValueError("nodeadm's types no longer state the names of feature gates")
    spec: dict[str, Any] = schema["properties"]["spec"]["properties"]
    spec["featureGates"]["propertyNames"] = {"enum": gates[1].split(",")}
    return schema


def kubelet_configuration(types: str) -> dict[str, str]:
    """Return the JSON type of each field of a KubeletConfiguration, by name."""
    body = re.search(r"^type KubeletConfiguration struct \{\n(.*?)^\}", types, re.MULTILINE | re.DOTALL)
    if body is None:
        raise ValueError("the kubelet's types have no KubeletConfiguration")
    return {name: _json_type(kind.lstrip("*")) for kind, name in FIELD.findall(body[1])}


def _json_type(kind: str) -> str:
    if kind.startswith("[]"):
        return "array"
    return TYPES.get(kind, "string" if kind.endswith(("Mode", "Policy", "Strategy")) else "object")


def _strict(node: Any) -> Any:
    """Return a structural schema without descriptions and extensions; an object with named fields has no others.

    nodeadm reads a value that preserves unknown fields as it is, whatever its type.
    """
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return {}
    kept = {
        key: {name: _strict(each) for name, each in value.items()} if key == "properties" else _strict(value)
        for key, value in node.items()
        if key not in ("description", "format") and not key.startswith("x-kubernetes-")
    }
    return kept | {"additionalProperties": False} if "properties" in kept else kept


def main(files: list[str]) -> None:
    """Write both schemas."""
    texts = [Path(file).read_text(encoding="utf-8") for file in files]
    sources = [
        {"url": url, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        for url, text in zip(SOURCES, texts, strict=True)
    ]
    NODECONFIG.write_text(_text({"sources": sources[:2], "schema": nodeconfig(*texts[:2])}), encoding="utf-8")
    fields = kubelet_configuration(texts[2])
    KUBELET.write_text(_text({"sources": sources[2:], "fields": fields}), encoding="utf-8")


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
