"""What Helm makes of a chart with a platform's values: its images, and the pods of its workloads."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from delivery.mirror_list import pointed_manifest
from tests.kubernetes_tools import tool
from tests.seams.charts.installed import PREFIX, Installed, mirror

Object = dict[str, Any]
WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet", "Job")
REFERENCE = re.compile(r"[\w.-]+\.[a-z]+(:\d+)?/[\w./-]+[:@][\w.:-]+")
MIB = {"": 2**20, "Ki": 2**10, "Mi": 1, "Gi": 2**-10}
# Field names by which custom resources spell an image: the GPU operator's ClusterPolicy, and KAI's Config.
SPELLINGS = (("repository", "image", "version"), ("repository", "name", "tag"))


class Workload(NamedTuple):
    """The pods of one workload.

    `cpu_millicores` and `memory_mib` are the requests of one pod. `nodes` are the node selector terms that a node must
    match one of, each a list of expressions; it is empty if the pods run on every node that they tolerate.
    """

    kind: str
    name: str
    replicas: int
    cpu_millicores: int
    memory_mib: int
    tolerations: list[Object]
    nodes: list[list[Object]]


class Rendered(NamedTuple):
    """The image references of a chart, sorted, and its workloads in the order of the render."""

    images: list[str]
    workloads: list[Workload]


def rendered(installed: Installed, directory: Path) -> Rendered:
    """Render the unpacked chart, or the published manifest, of `directory` as delivery/cluster.sh installs it.

    Raises CalledProcessError, whose stderr has Helm's message, if Helm refuses the chart or its values.
    """
    objects = list(_documents(render(installed, directory)))
    kept = [each for each in objects if each["kind"] != "CustomResourceDefinition" and not _is_test(each)]
    workloads = [_workload(each) for each in kept if each["kind"] in WORKLOADS]
    workloads += [_operands(each) for each in kept if each["kind"] == "ClusterPolicy"]
    return Rendered(sorted({image for each in kept for image in images(each)}), workloads)


def render(installed: Installed, directory: Path) -> str:
    """Return the objects as YAML text."""
    entry = installed.entry
    if "manifest" in entry:
        lines = (directory / f"{installed.chart}.yaml").read_text(encoding="utf-8").splitlines()
        return "\n".join(pointed_manifest(lines, dict(entry), mirror()["images"], PREFIX))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
        yaml.safe_dump(installed.values, values)
        values.flush()
        chart, into = directory / installed.chart, ["--namespace", entry["namespace"]]
        words = [tool("helm"), "template", entry["release"], chart, *into, "--values", values.name]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def images(thing: Any) -> Iterator[str]:
    """Yield every image reference in an object, except in a part of it that says `enabled: false`.

    Finds `image:` strings, environment variables whose value is a reference, the spellings of custom resources, and all
    of these in the YAML documents of a ConfigMap.
    """
    if isinstance(thing, dict):
        if _is_off(thing) or (isinstance(thing.get("service"), dict) and _is_off(thing["service"])):
            return
        for names in SPELLINGS:
            parts = [thing.get(name) for name in names]
            if all(isinstance(part, str) and part for part in parts):
                yield "{}/{}:{}".format(*parts)
        if isinstance(thing.get("image"), str) and "repository" not in thing:
            yield thing["image"]
        if isinstance(thing.get("value"), str) and REFERENCE.fullmatch(thing["value"]):
            yield thing["value"]
        for key, value in thing.items():
            text = thing.get("kind") == "ConfigMap" and key == "data"
            for each in map(_documents_of_text, value.values()) if text and value else [value]:
                yield from images(each)
    elif isinstance(thing, list):
        for each in thing:
            yield from images(each)


def _is_off(part: Object) -> bool:
    return part.get("enabled") is False


def _documents(text: str) -> Iterator[Object]:
    for document in yaml.load_all(text, Loader=yaml.CSafeLoader):
        if document:
            yield from document["items"] if document["kind"] == "List" else [document]


def _documents_of_text(text: Any) -> Any:
    try:
        return list(yaml.load_all(str(text), Loader=yaml.CSafeLoader))
    except yaml.YAMLError:
        return None


def _is_test(thing: Object) -> bool:
    """Whether Helm creates the object only for `helm test`."""
    return "test" in (thing["metadata"].get("annotations") or {}).get("helm.sh/hook", "")


def _workload(thing: Object) -> Workload:
    spec = thing["spec"]["template"]["spec"]
    asked = [(each.get("resources") or {}).get("requests") or {} for each in spec["containers"]]
    first = [(each.get("resources") or {}).get("requests") or {} for each in spec.get("initContainers") or []]
    cpu = max([sum(map(_millicores, asked)), *map(_millicores, first)])
    memory = max([sum(map(_mib, asked)), *map(_mib, first)])
    replicas = 0 if thing["kind"] == "DaemonSet" else thing["spec"].get("replicas", 1)
    tolerations = sorted(spec.get("tolerations") or [], key=str)
    return Workload(thing["kind"], thing["metadata"]["name"], replicas, cpu, memory, tolerations, _nodes(spec))


def _operands(policy: Object) -> Workload:
    """Return what the GPU operator makes of its ClusterPolicy, as one DaemonSet: they share tolerations and nodes.

    https://github.com/NVIDIA/gpu-operator/blob/v26.3.3/controllers/object_controls.go (read 2026-11-22)
    """
    tolerations = sorted(policy["spec"]["daemonsets"].get("tolerations") or [], key=str)
    nodes = [[{"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}]]
    return Workload("DaemonSet", f"operands of {policy['metadata']['name']}", 0, 0, 0, tolerations, nodes)


def _nodes(spec: Object) -> list[list[Object]]:
    selected = [
        {"key": key, "operator": "In", "values": [value]} for key, value in (spec.get("nodeSelector") or {}).items()
    ]
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [term.get("matchExpressions") or [] for term in required.get("nodeSelectorTerms") or []]
    return [[*selected, *term] for term in terms] if terms else [selected] if selected else []


def _millicores(requests: Mapping[str, Any]) -> int:
    text = str(requests.get("cpu", "0"))
    return int(text[:-1]) if text.endswith("m") else round(1000 * float(text))


def _mib(requests: Mapping[str, Any]) -> int:
    number, unit = re.fullmatch(r"(\d+)(\w*)", str(requests.get("memory", "0"))).groups()  # type: ignore[union-attr]
    return int(int(number) // MIB[unit]) if unit in ("", "Ki") else int(int(number) / MIB[unit])
