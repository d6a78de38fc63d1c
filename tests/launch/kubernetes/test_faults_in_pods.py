"""A pod whose program cannot succeed says why, and ends with a status after which its job does not start again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.launch.foreign import SAVES, write_foreign_job
from tests.launch.kubernetes.kubelet import Pod, network
from tests.launch.kubernetes.platforms import hand_off_of, pods_of
from tests.launch.kubernetes.test_pods_run import PLATFORM
from tests.launch.kubernetes.test_pods_run import pytestmark as needs_namespaces
from tests.launch.planted_faults import FAULTS
from tests.manifests.platforms import CATALOGUE
from tests.representatives import with_representatives
from trainway.launch.job_file.programs import load_program
from trainway.launch.kubernetes import KubernetesOptions, render_documents
from trainway.launch.node.exit_statuses import NOT_FOUND
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request

pytestmark = needs_namespaces


@pytest.mark.parametrize("fault", with_representatives(FAULTS, ["a command that no node has"]))
def test_a_pod_that_cannot_succeed_says_why_and_is_not_started_again(fault: str, tmp_path: Path) -> None:
    planted, fsx = FAULTS[fault], tmp_path / "fsx"
    fsx.mkdir()
    program = load_program(write_foreign_job(tmp_path, code=None, **planted.run))
    file_system = hand_off_of(PLATFORM).mounted.model_copy(update={"mount_path": str(fsx)})
    hand_off = hand_off_of(PLATFORM, file_system=file_system)
    request = Request(program, "bad", hand_off, "image", allocate(program, hand_off, CATALOGUE))
    config_map, job = render_documents(request, CATALOGUE, KubernetesOptions(kind="JobSet"))
    (template,) = pods_of(job)
    pod = Pod(0, "bad-node-0-0-abcde", "bad-node-0-0", "bad.training.svc.cluster.local")
    with network(tmp_path, (pod,)) as nodes:
        ended = nodes.run(pod, template, {config_map["metadata"]["name"]: config_map["data"]}).wait(timeout=60)
    said = (tmp_path / f"{pod.name}-0.log").read_text()
    assert ended == NOT_FOUND, said
    assert (Path(request.directory) / "attempts/1/failure").read_text().startswith(planted.why)
    assert f"trainway: failed on node 0: {planted.why}" in said and "begun" not in said.splitlines()
    (replicated,) = job["spec"]["replicatedJobs"]
    rules = replicated["template"]["spec"]["podFailurePolicy"]["rules"]
    (fails,) = [rule["onExitCodes"]["values"] for rule in rules if rule["action"] == "FailJob"]
    assert ended in fails


@pytest.mark.exhaustive
def test_a_pod_whose_outputs_vanished_does_not_begin_anew(tmp_path: Path) -> None:
    fsx, ended = tmp_path / "fsx", []
    fsx.mkdir()
    program = load_program(write_foreign_job(tmp_path, code=None, command=SAVES))
    file_system = hand_off_of(PLATFORM).mounted.model_copy(update={"mount_path": str(fsx)})
    hand_off = hand_off_of(PLATFORM, file_system=file_system)
    request = Request(program, "gone", hand_off, "image", allocate(program, hand_off, CATALOGUE))
    config_map, job = render_documents(request, CATALOGUE, KubernetesOptions(kind="JobSet"))
    (template,) = pods_of(job)
    for number in range(3):
        pod = Pod(0, f"gone-node-0-0-abcd{'efg'[number]}", "gone-node-0-0", "gone.training.svc.cluster.local")
        if number == 2:
            shutil.rmtree(Path(request.directory) / "outputs")
        with network(tmp_path, (pod,)) as nodes:
            ended.append(
                nodes.run(pod, template, {config_map["metadata"]["name"]: config_map["data"]}).wait(timeout=600)
            )
    said = (tmp_path / f"{pod.name}-0.log").read_text()
    assert ended == [0, 0, NOT_FOUND], said
    assert "the outputs of the run are gone. Attempt 2 had 1 file" in said
