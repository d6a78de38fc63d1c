"""Every Kubernetes object of a platform: what the delivery applies, what `trainway manifests` writes, and what
`trainway launch --dry-run`, `trainway verify`, and a workspace submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from delivery.render_manifests import render
from tests.data_files import read_yaml
from tests.launch.kubernetes.platforms import PLATFORMS as LAUNCHED_ON
from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.kubernetes.trainer import pod_template_of
from tests.manifests.platforms import CATALOGUE
from tests.seams.shapes import kubernetes_platforms
from tests.synthesis import ROOT
from trainway.extensions.workspace import WorkspaceRequest, define, render_workspace
from trainway.launch.job_file.programs import load_program
from trainway.launch.kubernetes import KINDS, KubernetesOptions, as_yaml, render_documents
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import RunLifeCycle
from trainway.launch.program.request import Request, run_name
from trainway.manifests import cluster_manifests
from trainway.manifests.export import export_manifests
from trainway.manifests.training_runtime import image_fact
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.platform import Platform
from trainway.verify.probe_request import probe_point, probe_request

REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
IMAGE = f"{REGISTRY}/atlas/training@sha256:{64 * '0'}"
# What a deploy tells the delivery's stage.
FACTS = {
    "TRAINWAY_FSX_ID": "fs-0123456789abcdef0",
    "TRAINWAY_FSX_DNS_NAME": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
    "TRAINWAY_FSX_MOUNT_NAME": "abcdefgh",
    "TRAINWAY_FSX_SUBNET_ID": "subnet-0123456789abcdef0",
    "TRAINWAY_FSX_GROUP_ID": "sg-0123456789abcdef0",
    "TRAINWAY_IMAGE": f"{REGISTRY}/atlas/training:0123456789abcdef",
    "TRAINWAY_IMAGE_DEVELOP": f"{REGISTRY}/atlas/training-develop:0123456789abcdef",
}
WITHIN = "topology.k8s.aws/network-node-layer-3"
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"priority": "high"},
    {"within": WITHIN},
    {"min_nodes": 1},
    {"spare_nodes": 1},
    {"exclude": "ip-10-0-1-5,ip-10-0-1-7"},
    {"code": "s3://atlas-data/runs/code/0.tar.gz"},
    {"slow_step_seconds": 30, "loss_above": 12, "hang_seconds": 600},
    {
        "priority": "low",
        "within": WITHIN,
        "min_nodes": 1,
        "spare_nodes": 2,
        "code": "s3://atlas-data/runs/code/0.tar.gz",
    },
)
JOBS = (*sorted((ROOT / "examples" / "jobs").glob("*.yaml")), ROOT / "examples/your-program/job.yaml")
Document = dict[str, Any]
# What kubectl calls the kinds that a launch submits.
PLURALS = {
    "ConfigMap": "/configmaps",
    "HyperPodPyTorchJob": "sagemaker.amazonaws.com/hyperpodpytorchjobs",
    "Job": "batch/jobs",
    "JobSet": "jobset.x-k8s.io/jobsets",
    "MPIJob": "kubeflow.org/mpijobs",
    "PyTorchJob": "kubeflow.org/pytorchjobs",
    "RayJob": "ray.io/rayjobs",
    "Secret": "/secrets",
    "TrainJob": "trainer.kubeflow.org/trainjobs",
    "TrainingRuntime": "trainer.kubeflow.org/trainingruntimes",
}


@dataclass(frozen=True)
class Launch:
    """What one launch submits, or why it is refused. `what` names the job, its kind, and its options."""

    platform: str
    what: str
    kind: str
    documents: tuple[Document, ...] = ()
    refused: str = ""


@cache
def every_platform() -> dict[str, Platform]:
    """Return the platforms with Kubernetes by name: examples, shapes, and those that the tests of launches use.

    The last have every operator with each way to share nodes.
    """
    return {**kubernetes_platforms(), **{f"launches with {name}": platform_named(name) for name in LAUNCHED_ON}}


def facts_of(platform: Platform) -> dict[str, str]:
    """Return what a deploy of the platform tells the delivery's stage, with the URI of each further image."""
    named = {image_fact(name): f"{REGISTRY}/atlas/{name}:0123456789abcdef" for name in platform.images}
    return {**named, **FACTS}


def deployed(manifest: Document) -> Document:
    """Return a manifest with the facts of a deploy in it."""
    filled: Document = json.loads(render(json.dumps(manifest), FACTS))
    return filled


@cache
def delivered(name: str) -> tuple[Document, ...]:
    """Return the objects as delivery/cluster.sh and delivery/autoscaling.sh apply them."""
    made = cluster_manifests(every_platform()[name], CATALOGUE)
    found: list[Document] = []
    for stage in ("objects", "autoscaling"):
        with tempfile.TemporaryDirectory() as directory:
            source, rendered = Path(directory, "source", "objects"), Path(directory, "rendered")
            source.mkdir(parents=True)
            for file_name, manifest in made.items():
                if file_name.startswith(f"{stage}/"):
                    source.joinpath(f"{file_name.partition('/')[2]}.json").write_text(json.dumps(manifest))
            command = [
                sys.executable,
                str(ROOT / "delivery" / "render_manifests.py"),
                str(source.parent),
                str(rendered),
            ]
            subprocess.run(
                command, env={**os.environ, **facts_of(every_platform()[name])}, check=True, stdout=subprocess.DEVNULL
            )
            found += [json.loads(file.read_text()) for file in sorted(rendered.rglob("*.json"))]
    return tuple(found)


def exported(name: str) -> list[Document]:
    """Return the objects that `trainway manifests` writes for a deployed platform."""
    platform = every_platform()[name]
    with tempfile.TemporaryDirectory() as directory:
        files, _ = export_manifests(platform, CATALOGUE, Path(directory), hand_off_of(platform))
        applied = [file for file in files if _is_applied(str(file.relative_to(directory)))]
        return [read_yaml(file) for file in applied]


@cache
def launches(name: str) -> tuple[Launch, ...]:
    """Return the launches of every example job and of `trainway verify` on a platform, with each kind.

    Each group of the platform runs the small jobs, and the first that is large enough every other one. The first job of
    several nodes is launched with every option.
    """
    platform = every_platform()[name]
    requests = list(_requests(hand_off_of(platform)))
    requests += [_with_life_cycle(requests[0], run, keep) for run, keep in (("again", None), ("kept", 24))]
    wide = next((each for each in requests if each.allocation.nodes > 1), requests[0])
    return tuple(
        _launch(name, request, f"{request.program.name} on {request.allocation.group.name}", kind, options)
        for request in requests
        for kind in KINDS
        for options in (OPTIONS if request is wide else OPTIONS[:1])
    )


@cache
def workspaces(name: str) -> tuple[Launch, ...]:
    """Return the workspaces of a platform: one accelerator and all of a node, on each group."""
    platform = every_platform()[name]
    hand_off = hand_off_of(platform)
    team = hand_off.teams[0] if hand_off.teams else None
    made = []
    for group in hand_off.node_groups:
        for accelerators in (1, 8):
            what = f"workspace with {accelerators} of {group.name}"
            asked = WorkspaceRequest("ada", team=team, group=group.name, accelerators=accelerators)
            try:
                documents = render_workspace(define(hand_off, lambda _: IMAGE, CATALOGUE, asked), CATALOGUE, "token")
                made.append(Launch(name, what, "workspace", _as_submitted(documents)))
            except UsageError as error:
                made.append(Launch(name, what, "workspace", refused=str(error)))
    return tuple(made)


def every_launch(name: str) -> tuple[Launch, ...]:
    """Return the launches and the workspaces of a platform."""
    return (*launches(name), *workspaces(name))


def submitted(name: str) -> list[Document]:
    """Return what every launch and workspace of a platform submits, and the pods that are made of its TrainJobs."""
    made = [each.documents for each in every_launch(name) if each.documents]
    return [each for documents in made for each in (*documents, *pods_of_train_job(documents))]


def pods_of_train_job(documents: tuple[Document, ...]) -> list[Document]:
    """Return the pod that Trainer makes of each TrainJob and its runtime."""
    jobs = [each for each in documents if each["kind"] == "TrainJob"]
    return [{"apiVersion": "v1", "kind": "Pod", **_named(pod_template_of(job, documents))} for job in jobs]


def _launch(platform: str, request: Request, what: str, kind: Any, options: dict[str, Any]) -> Launch:
    words = " ".join([what, *(f"{key}={value}" for key, value in options.items())])
    request = replace(request, code=options.get("code"))
    flags = {key: value for key, value in options.items() if key != "code"}
    try:
        documents = render_documents(request, CATALOGUE, KubernetesOptions(kind=kind, **flags))
    except UsageError as error:
        return Launch(platform, words, kind, refused=str(error))
    return Launch(platform, words, kind, _as_submitted(documents))


def _with_life_cycle(request: Request, run: str, keep_hours: int | None) -> Request:
    """Return the request of a job whose file sets its life cycle. Not every kind can be kept for hours."""
    stated = frozenset({"restarts", "process_restarts", "keep_hours"})
    life_cycle = RunLifeCycle(restarts=2, process_restarts=1, keep_hours=keep_hours, stated=stated)
    program = replace(request.program, life_cycle=life_cycle)
    return replace(request, program=program, run=f"{request.run}-{run}")


def _requests(hand_off: HandOff) -> Iterator[Request]:
    # Where there are teams, a job names one.
    team = hand_off.teams[0] if hand_off.teams else None
    probe = probe_point(2, team=team).program
    tiny, *others = sorted(map(load_program, JOBS), key=lambda program: (program.nodes, program.name != "tiny"))
    for program in (tiny, *others, probe):
        program = replace(program, team=team)
        groups = [each.name for each in hand_off.node_groups] if program in (tiny, probe) else [None]
        for group in groups:
            try:
                allocation = allocate(program, hand_off, CATALOGUE, group)
            except UsageError:
                continue
            request = Request(program, run_name(program), hand_off, IMAGE, allocation)
            yield probe_request(request) if program.name == probe.name else request


def _as_submitted(documents: list[Document]) -> tuple[Document, ...]:
    """Return the documents as kubectl reads them."""
    return tuple(yaml.load_all(as_yaml(documents), getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def _is_applied(name: str) -> bool:
    return name.startswith(("objects/", "autoscaling/"))


def _named(template: Document) -> Document:
    return {**template, "metadata": {**template.get("metadata", {}), "name": "node"}}
