"""Platforms of each way to share nodes, with the hand-off that their deploy writes, and a job's request on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.launch.conftest import BUCKET
from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.launch.job_file.programs import program_of
from trainway.launch.kubernetes.process import DIRECTORY
from trainway.launch.program.allocation import allocate
from trainway.launch.program.program import RUN_FILES
from trainway.launch.program.request import Request
from trainway.manifests.device_claims import claims_of_a_node
from trainway.manifests.job_kinds import launch_kinds
from trainway.manifests.namespace import namespaces
from trainway.manifests.queue_labels import queue_labels
from trainway.manifests.training_runtime import runtime_of
from trainway.spec import handoff
from trainway.spec.capacity.devices import devices_of, ranks_of
from trainway.spec.jobs.obtainable import nodes_that_grow, team_shares
from trainway.spec.jobs.team_nodes import queue_of
from trainway.spec.platform import Platform

ROOT = Path(__file__).parents[3]
RUN = "small-1121-120000"
TEAMS = [{"name": "research", "guarantee": {"p5.48xlarge": 2}}, {"name": "product"}]
HYPERPOD_GROUPS = [{"name": "train", "instance_type": "p5.48xlarge", "count": 4, "max_count": 8}]
OPERATORS = {"pytorch_operator": True, "mpi_operator": True, "ray_operator": True}
PLATFORMS: dict[str, dict[str, Any]] = {
    "kueue": {"teams": TEAMS, "kubernetes": OPERATORS},
    "kai": {"teams": TEAMS, "kubernetes": {"queues": "kai", **OPERATORS}},
    "run-ai": {
        "teams": [{"name": "research"}, {"name": "product"}],
        "kubernetes": {"queues": "run-ai", "gpu_devices": "operator", **OPERATORS},
    },
    "governance": {
        "orchestrator": "hyperpod-eks",
        "teams": TEAMS,
        "node_groups": HYPERPOD_GROUPS,
        "kubernetes": OPERATORS,
        "hyperpod": {"training_operator": True},
    },
    "nobody": {"teams": [], "kubernetes": OPERATORS},
    "claims": {"teams": [], "kubernetes": {"gpu_devices": "dra", **OPERATORS}},
    "efa claims": {"teams": [], "kubernetes": {"efa_devices": "dra", **OPERATORS}},
}


def platform_named(name: str) -> Platform:
    """One of PLATFORMS."""
    return platform_of(**PLATFORMS[name])


def hand_off_of(platform: Platform, **changes: Any) -> handoff.HandOff:
    """What stacks/clusters/hand_off.py writes, with some keys changed."""
    service = "sagemaker" if platform.orchestrator.is_hyperpod else "eks"
    document = {
        "platform": platform.name,
        "orchestrator": platform.orchestrator.value,
        "region": platform.region,
        "bucket": BUCKET,
        "file_system": handoff.FileSystem(
            file_system_id="fs-0",
            dns_name="fs-0.fsx",
            mount_name="m",
            mount_path="/fsx",
            associations=tuple(
                handoff.Association(path=f"/{prefix}", s3=f"s3://{BUCKET}/{prefix}")
                for prefix in platform.storage.lustre.mirrored
            ),
            team_directories=platform.storage.team_directories,
        )
        if platform.storage.lustre
        else None,
        "image_uri": "111122223333.dkr.ecr.us-west-2.amazonaws.com/atlas/training:0",
        "images": {name: f"111122223333.dkr.ecr.us-west-2.amazonaws.com/atlas/{name}:0" for name in platform.images},
        "cluster": handoff.Cluster(
            name=platform.name,
            arn=f"arn:aws:{service}:{platform.region}:111122223333:cluster/{platform.name}",
            namespaces=namespaces(platform),
            job_labels=queue_labels(platform),
            job_kinds=launch_kinds(platform),
            queue=queue_of(platform),
        ),
        "node_groups": tuple(
            handoff.Nodes(
                name=group.name,
                instance_type=group.instance_type,
                or_types=group.or_types,
                **nodes_that_grow(platform, group, CATALOGUE),
                ranks=ranks_of(group, CATALOGUE[group.instance_type]),
                devices={d.resource: d.count for d in devices_of(platform, group, CATALOGUE) if not d.device_class},
                claims=claims_of_a_node(platform, group, CATALOGUE),
                runtime=runtime_of(platform, group, CATALOGUE),
            )
            for group in platform.node_groups
        ),
        "teams": tuple(team.name for team in platform.teams),
        "team_shares": team_shares(platform),
    }
    return handoff.HandOff.model_validate(document | changes)


def request_on(hand_off: handoff.HandOff, **changes: Any) -> Request:
    """A job of two nodes, with some of its keys changed, on the platform's first group that has room."""
    until_step, code = changes.pop("until_step", None), changes.pop("code", None)
    job = {
        "name": "small",
        "nodes": 2,
        "model": "tiny",
        "data": {"train": "fsx:/corpus/small", "sequence_length": 64},
        "batch": {"global": 64, "micro": 1},
        "steps": 12,
        **({"team": "research"} if hand_off.teams else {}),
        **changes,
    }
    if "run" in changes:
        job = {key: value for key, value in job.items() if key in ("name", "nodes", "team", "life_cycle", "run")}
    text = yaml.safe_dump(job)
    program = program_of(job, text, until_step)
    image = "111122223333.dkr.ecr.us-west-2.amazonaws.com/atlas/training@sha256:" + 64 * "0"
    run = RUN.replace("small", program.name)
    return Request(program, run, hand_off, image, allocate(program, hand_off, CATALOGUE), code)


def request_for(platform: str, /, **changes: Any) -> Request:
    """The same on one of PLATFORMS."""
    return request_on(hand_off_of(platform_named(platform)), **changes)


def without_copies(command: Sequence[str]) -> list[str]:
    """Return the command of a node without the program that copies the files of the run to S3."""
    words, copying = list(command), str(DIRECTORY / RUN_FILES.name)
    if copying not in words:
        return words
    at = words.index(copying)
    return words[: at - 1] + words[words.index("--", at) + 1 :]


def pods_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod templates that a job has of its own; a TrainJob has none."""
    spec = document["spec"]
    sets = [
        *spec.get("pytorchReplicaSpecs", {}).values(),
        *spec.get("mpiReplicaSpecs", {}).values(),
        *spec.get("replicaSpecs", ()),
        *(each["template"]["spec"] for each in spec.get("replicatedJobs", ())),
    ]
    return [each["template"] for each in sets]
