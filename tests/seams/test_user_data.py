"""The user data of every launch template, read by cloud-init, shellcheck, and the schemas of nodeadm and the kubelet.

nodeadm drops a field that it does not know without an error, and a kubelet does not start with one.
"""

from __future__ import annotations

import base64
import email
import ipaddress
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.seams.nodes.refresh import KUBELET, NODECONFIG
from tests.seams.resolved import deploy, deployed, deployed_of
from tests.seams.seam import Planted, Reading, Seam
from tests.seams.shapes import kubernetes_platforms, some_and_all_platforms
from tests.synthesis import ROOT, templates_of
from trainway.spec.facts.kubernetes_versions import kubernetes_versions

# Counted before base64: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html (read
# 2026-11-22).
LIMIT_BYTES = 16 * 1024
INSTALL = ROOT / "scripts" / "install_cloud_init"
PROCESS = Path(__file__).parent / "nodes" / "process_user_data.py"
SHELLCHECK = Path(sys.executable).with_name("shellcheck")
NODEADM_TYPE, SCRIPT_TYPE = "application/node.eks.aws", "text/x-shellscript"
# Of cloud-init outside of an instance, and about the part that nodeadm reads.
EXPECTED = ("No per instance data available", f"Unhandled unknown content-type ({NODEADM_TYPE})")
# nodeadm requires them, which EKS adds for its own images: ValidateNodeConfig in
# https://github.com/awslabs/amazon-eks-ami/blob/v20260724/nodeadm/internal/api/validation.go (read 2026-11-22)
CLUSTER = {"name", "apiServerEndpoint", "certificateAuthority", "cidr"}


@cache
def modules() -> str:
    """Return where the modules of cloud-init are."""
    return subprocess.run([INSTALL, "--where"], capture_output=True, text=True, check=True).stdout.strip()


needs_cloud_init = pytest.mark.skipif(
    not (Path(modules()) / "cloudinit").exists(), reason="scripts/install_cloud_init was not called"
)


def user_data(names: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Return the user data of every launch template, and whether the template names an image, by platform and name."""
    return {
        f"{platform}/{name}": text_of(template)
        for platform, each in deployed(names).items()
        for (_, name), template in each.of_type("AWS::EC2::LaunchTemplate").items()
    }


def text_of(template: dict[str, Any]) -> tuple[str, bool]:
    """Return the user data of a launch template, decoded, and whether the template names an image."""
    data = template["LaunchTemplateData"]
    return base64.b64decode(data["UserData"]).decode(), "ImageId" in data


@cache
def processed(text: str) -> dict[str, Any]:
    """Return what cloud-init makes of user data."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "user-data"
        file.write_text(text, encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, PROCESS, Path(directory) / "cloud", file],
            env={**os.environ, "PYTHONPATH": modules()},
            capture_output=True,
            text=True,
            check=True,
        )
    made: dict[str, Any] = json.loads(ran.stdout)[str(file)]
    return made


def problems(text: str, *, own_image: bool = False) -> Iterator[str]:
    """Yield what the readers of user data have against it."""
    if len(text.encode()) > LIMIT_BYTES:
        yield f"EC2 takes {LIMIT_BYTES} bytes"
    made = processed(text)
    for part in email.message_from_string(text).walk():
        yield from (f"MIME: {defect.__doc__ or defect}" for defect in part.defects)
    yield from (f"cloud-init: {line}" for line in made["warnings"] if not line.startswith(EXPECTED))
    yield from (f"cloud-init: {kind} is no type of ours" for kind in {*made["types"]} - {NODEADM_TYPE, SCRIPT_TYPE})
    if len(made["scripts"]) != made["types"].count(SCRIPT_TYPE):
        yield "cloud-init: a script was not written"
    for script in made["scripts"]:
        yield from (f"shellcheck: {line}" for line in checked(script))
    configs = [part for kind, part in made["parts"] if kind == NODEADM_TYPE]
    if len(configs) != 1:
        yield f"nodeadm: {len(configs)} NodeConfigs"
    for config in configs:
        yield from node_config_problems(config, own_image=own_image)


@cache
def checked(script: str) -> tuple[str, ...]:
    """Return what shellcheck has against a script; without an interpreter line it is no script at all."""
    command = [str(SHELLCHECK), "--format=gcc", "--severity=warning", "-"]
    ran = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    return tuple(ran.stdout.splitlines())


def node_config_problems(text: str, *, own_image: bool) -> Iterator[str]:
    """Yield what the published schemas of NodeConfig and KubeletConfiguration have against a NodeConfig."""
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield f"nodeadm: {error}"
        return
    validator = jsonschema.Draft202012Validator(json.loads(NODECONFIG.read_text(encoding="utf-8"))["schema"])
    yield from (f"nodeadm: {error.json_path} {error.message}" for error in validator.iter_errors(config))
    if not isinstance(config, dict) or not isinstance(spec := config.get("spec"), dict):
        return
    if (config.get("apiVersion"), config.get("kind")) != ("node.eks.aws/v1alpha1", "NodeConfig"):
        yield "nodeadm: another kind"
    cluster = spec.get("cluster", {})
    if own_image and (lacking := CLUSTER - set(cluster)):
        yield f"nodeadm: an image of one's own must be told {', '.join(sorted(lacking))}"
    if "cidr" in cluster:
        yield from _range_problems(cluster["cidr"])
    yield from kubelet_problems(spec.get("kubelet", {}))


def _range_problems(cidr: str) -> Iterator[str]:
    try:
        ipaddress.ip_network(cidr)
    except ValueError as error:
        yield f"nodeadm: cidr: {error}"


JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
}


def kubelet_problems(kubelet: dict[str, Any]) -> Iterator[str]:
    """Yield the fields that a KubeletConfiguration does not have, values of another type, and flags that are none."""
    fields = json.loads(KUBELET.read_text(encoding="utf-8"))["fields"]
    for name, value in (kubelet.get("config") or {}).items():
        if name not in fields:
            yield f"kubelet: there is no field {name}"
        elif not isinstance(value, JSON_TYPES[fields[name]]) or (fields[name] == "integer" and value is True):
            yield f"kubelet: {name} is of the type {fields[name]}"
    for flag in kubelet.get("flags", []):
        if not re.fullmatch(r"--register-with-taints=[\w.-]+(/[\w.-]+)?=[\w.-]*:(NoSchedule|NoExecute)", flag):
            yield f"kubelet: {flag} is no flag that this test knows"


@needs_cloud_init
@pytest.mark.parametrize("names", some_and_all_platforms())
def test_every_launch_templates_user_data_is_read(names: tuple[str, ...]) -> None:
    read = user_data(names)
    print(f"{len({text for text, _ in read.values()})} user data that differ, of {len(read)}")
    assert {name.split("/")[0] for name in read} == set(kubernetes_platforms()) & set(names)
    found = {name: list(problems(text, own_image=own)) for name, (text, own) in read.items()}
    assert {name: said for name, said in found.items() if said} == {}


@needs_cloud_init
def test_an_image_of_ones_own_is_told_all_that_nodeadm_asks_for(tmp_path: Path) -> None:
    platform = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text(encoding="utf-8"))
    groups = [{**group, "image_id": "ami-0123456789abcdef0"} for group in platform["node_groups"]]
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump(platform | {"node_groups": groups}), encoding="utf-8")
    made = deploy(templates_of(file), platform["region"])
    template = made.of_type("AWS::EC2::LaunchTemplate")["cluster", "TrainTemplate"]
    text, own = text_of(template)
    assert own and not list(problems(text, own_image=True))
    for key in CLUSTER:
        assert list(problems(re.sub(rf"\n    {key}: .*", "", text), own_image=True)), key


def test_the_kubelets_schema_is_of_the_default_version() -> None:
    (source,) = json.loads(KUBELET.read_text(encoding="utf-8"))["sources"]
    assert f"/v0.{kubernetes_versions().default.partition('.')[2]}.0/" in source["url"]


def train() -> str:
    """Return the user data of the example's training nodes."""
    templates = deployed_of("eks-p5").of_type("AWS::EC2::LaunchTemplate")
    return text_of(templates["cluster", "TrainTemplate"])[0]


def reading(change: Callable[[str], str] = str) -> Reading:
    """Return a reading of the example's user data after a change, or of none where cloud-init is missing."""

    def read(_: Path) -> list[str]:
        if not (Path(modules()) / "cloudinit").exists():
            pytest.skip("scripts/install_cloud_init was not called")
        before = train()
        after = change(before)
        assert change is str or after != before, "the error was not planted"
        return list(problems(after))

    return read


def replaced(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


def planted(error: str, old: str, new: str) -> Planted:
    return Planted(error, sound=reading(), broken=reading(replaced(old, new)))


SCRIPT_HEAD = f"Content-Type: {SCRIPT_TYPE}\n\n#!/usr/bin/env bash\n"
SEAMS = (
    Seam(
        artifact="user data of EC2 nodes",
        rendered_by="stacks/constructs/eks/user_data.py",
        reader="Debian's cloud-init, which splits it and writes the scripts, and shellcheck",
        instead="cloud-init's part handlers run, and the scripts do not. tests/stacks/test_user_data.py runs one of "
        "them under systemd.",
        planted=(
            planted(
                "a boundary between two parts is misspelled", f"--TRAINWAY\nContent-Type: {SCRIPT_TYPE}", "--OTHER\n"
            ),
            planted("the closing boundary is missing", "--TRAINWAY--\n", ""),
            planted("the boundary is not the one that the header names", 'boundary="TRAINWAY"', 'boundary="OTHER"'),
            planted("a script has no interpreter line", SCRIPT_HEAD, f"Content-Type: {SCRIPT_TYPE}\n\n"),
            planted("a part has a type that nobody reads", SCRIPT_TYPE, "text/x-bash"),
            planted("a script has a syntax error", "set -euo pipefail", "if true; the"),
            planted("a part is larger than EC2 takes", "set -euo pipefail", "# long\n" * 2500),
        ),
    ),
    Seam(
        artifact="NodeConfig",
        rendered_by="stacks/constructs/eks/launch_template.py",
        reader="nodeadm's published schema, unknown fields refused, and the fields of the kubelet's own types",
        instead="nodeadm is built into EKS's images. It drops unknown fields, so the schema is stricter.",
        planted=(
            planted("a field of nodeadm's is unknown", "localStorage:", "localStorages:"),
            planted("a strategy of nodeadm's does not exist", "strategy: RAID0", "strategy: RAID5"),
            planted("a feature gate does not exist", "FastImagePull: true", "FastImagePulls: true"),
            planted("a feature gate is text", "FastImagePull: true", 'FastImagePull: "yes please"'),
            planted("a field of the kubelet's is unknown", "maxPods: ", "maximumPods: "),
            planted("a number of the kubelet's is text", "maxPods: ", "maxPods: a"),
            planted("the kind is another", "kind: NodeConfig", "kind: NodeConfigs"),
            planted("the NodeConfig is no YAML", "kind: NodeConfig", "kind: [NodeConfig"),
        ),
    ),
)
