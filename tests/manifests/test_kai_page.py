"""The jobs of docs/kai.md are ones that the API server, Trainer and the queues' guard take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.manifests.platforms import CATALOGUE, named, objects, platform_of
from tests.manifests.test_kai import admits
from tests.seams.kubernetes.definitions import need_definitions
from tests.seams.kubernetes.reader import read
from tests.synthesis import ROOT
from trainway.manifests.kai import QUEUE_LABEL

PAGE = ROOT / "docs" / "kai.md"
SECTION, JOB, TRAIN_JOB = (
    yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", Path(PAGE).read_text(encoding="utf-8"), re.DOTALL)
)
PLATFORM = platform_of(teams=[{"name": "research"}], **SECTION)


def test_the_section_is_what_turns_it_on() -> None:
    assert PLATFORM.kai


def test_the_job_is_one_that_kubernetes_and_the_guard_take() -> None:
    assert read(JOB, PLATFORM.kubernetes_or_default.version) == []
    template = JOB["spec"]["template"]
    assert admits("batch/jobs", JOB, platform=PLATFORM)
    assert admits("/pods", {"metadata": {}, **template}, platform=PLATFORM)
    assert JOB["metadata"]["labels"][QUEUE_LABEL] in named(PLATFORM, "Queue")
    assert JOB["metadata"]["labels"]["priorityClassName"] in named(PLATFORM, "PriorityClass")
    (container,) = template["spec"]["containers"]
    assert container["resources"]["limits"] == CATALOGUE["p5.48xlarge"].devices


def test_the_elastic_job_is_one_that_trainer_and_the_guard_take() -> None:
    need_definitions()
    assert read(TRAIN_JOB, PLATFORM.kubernetes_or_default.version) == []
    assert admits("trainer.kubeflow.org/trainjobs", TRAIN_JOB, platform=PLATFORM)
    assert TRAIN_JOB["metadata"]["labels"][QUEUE_LABEL] in named(PLATFORM, "Queue")


def test_the_elastic_job_patches_the_job_that_the_runtime_has() -> None:
    runtime = named(PLATFORM, "ClusterTrainingRuntime")[TRAIN_JOB["spec"]["runtimeRef"]["name"]]
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (patch,) = TRAIN_JOB["spec"]["runtimePatches"]
    (patched,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert patched["name"] == job["name"]
    annotations: dict[str, Any] = patched["template"]["metadata"]["annotations"]
    fewest, most = re.findall(r"--nnodes=(\d+):(\d+)", " ".join(TRAIN_JOB["spec"]["trainer"]["command"]))[0]
    assert annotations == {"kai.scheduler/batch-min-member": fewest}
    assert TRAIN_JOB["spec"]["trainer"]["numNodes"] == int(most)
    assert objects(PLATFORM, "Topology")
