"""On nodes with EFA, a launch names the only network that NCCL may use. NCCL then ends a job that would fall to TCP."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.launch.foreign import write_foreign_job
from tests.synthesis import ROOT
from trainway.launch.job_file.programs import load_program
from trainway.launch.job_file.sweep import Point
from trainway.launch.program.environment import EFA_NETWORK, NCCL_NET, network_environment
from trainway.launch.program.request import Request
from trainway.launch.sagemaker.container import environment as on_sagemaker
from trainway.launch.starting.prepare import Launch, requests_beside_platform, requests_on_platform

EKS = ROOT / "examples/eks-p5.yaml"
OTHER = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/jobs@sha256:{'ab' * 32}"


def platform(tmp_path: Path, **changes: Any) -> Path:
    """Write eks-p5 with other keys, and with a node group `other` of an `instance_type`."""
    document = yaml.safe_load(EKS.read_text(encoding="utf-8"))
    if instance_type := changes.pop("instance_type", None):
        document["node_groups"].append({"name": "other", "instance_type": instance_type, "count": 4})
    file = tmp_path / "platform.yaml"
    file.write_text(yaml.safe_dump({**document, **changes}), encoding="utf-8")
    return file


def prepared(tmp_path: Path, file: Path, *, beside: bool = False, allow_tcp: bool = False, **job: Any) -> Request:
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    team, last = document["teams"][0]["name"], document["node_groups"][-1]["name"]
    group = last if last == "other" else None
    program = replace(load_program(write_foreign_job(tmp_path, **{"nodes": 2, **job})), team=team)
    launch = Launch([Point(program, {})], file, dry_run=True, source="file", group=group, allow_tcp=allow_tcp)
    [request] = requests_beside_platform(launch) if beside else requests_on_platform(launch)
    return request


def told(request: Request) -> str | None:
    return request.environment(request.on_nodes()).get(NCCL_NET)


def test_nccl_must_use_the_network_of_efa_between_nodes_that_have_it(tmp_path: Path) -> None:
    assert told(prepared(tmp_path, platform(tmp_path))) == EFA_NETWORK == "Libfabric"


def test_tcp_is_allowed_if_a_person_says_so(tmp_path: Path) -> None:
    assert told(prepared(tmp_path, platform(tmp_path), allow_tcp=True)) is None


def test_one_node_sends_nothing_over_a_network(tmp_path: Path) -> None:
    assert told(prepared(tmp_path, platform(tmp_path), nodes=1)) is None


@pytest.mark.parametrize(("instance_type", "network"), [("g5.2xlarge", None), ("g6e.48xlarge", EFA_NETWORK)])
def test_the_type_of_the_nodes_decides(tmp_path: Path, instance_type: str, network: str | None) -> None:
    assert told(prepared(tmp_path, platform(tmp_path, instance_type=instance_type))) == network


def test_an_image_of_which_nothing_is_known_decides_for_itself(tmp_path: Path) -> None:
    assert told(prepared(tmp_path, platform(tmp_path, image={"uri": OTHER}))) is None
    assert told(prepared(tmp_path, platform(tmp_path), image=OTHER)) is None


def test_on_sagemaker_the_types_that_are_known_to_have_the_devices_decide(tmp_path: Path) -> None:
    for instance_type, network in ((None, EFA_NETWORK), ("g6e.48xlarge", None)):
        changes = {"iam": {"training_jobs": True}, "instance_type": instance_type}
        request = prepared(tmp_path, platform(tmp_path, **changes), beside=True)
        assert request.network == network
    request = prepared(tmp_path, platform(tmp_path, iam={"training_jobs": True}), beside=True)
    on_nodes = request.on_nodes()
    told = on_sagemaker(request, on_nodes, {}, {}, on_nodes.job_file, repaired=False, streamed=False)
    assert told[NCCL_NET] == EFA_NETWORK
    assert network_environment(None) == {}


@pytest.mark.parametrize(("chosen", "says"), [("Socket", True), ("libfabric", False)])
def test_the_value_of_the_job_file_wins_with_a_note(tmp_path: Path, chosen: str, says: bool) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed):
        request = prepared(tmp_path, platform(tmp_path), environment={NCCL_NET: chosen}, allow_environment=[NCCL_NET])
    assert told(request) == chosen
    assert (f"note: {request.program.name}: NCCL_NET of the job file is {chosen}" in printed.getvalue()) is says
