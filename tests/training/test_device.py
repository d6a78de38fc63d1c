"""A node with accelerators trains on them, or its job ends at the start with what it found. The CPU is never silent."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.training.conftest import StartRank
from tests.training.device_refusals import GPUS, NEW, P5, REFUSALS, TRN2
from training.errors import UserError
from training.hosts.accelerators import (
    VARIABLE,
    FoundAccelerators,
    StatedAccelerators,
    found_accelerators,
    stated_accelerators,
)
from trainway.explain import evidence_in, explain
from trainway.spec.facts.drivers import driver_facts


@pytest.mark.parametrize(("stated", "found", "cuda", "why", "fix", "rule"), REFUSALS)
def test_each_cause_is_named_with_what_was_found_and_a_remedy(
    stated: StatedAccelerators,
    found: tuple[Any, ...],
    cuda: tuple[Any, ...],
    why: str,
    fix: str,
    rule: str,
    tmp_path: Path,
) -> None:
    from training.parallel.device import CudaState, refusal

    said = refusal(stated, 8, FoundAccelerators(*found), CudaState(*cuda))
    assert why in said and fix in said, said
    assert said.index(why) < said.index("Found: ") < said.index(fix)
    files, driver = found
    built_for, _, error, visible = cuda
    for each in (*files, driver or "NVIDIA driver not loaded", built_for or "built without CUDA", error or "PyTorch"):
        assert each in said
    assert f"CUDA_VISIBLE_DEVICES {'not set' if visible is None else repr(visible)}" in said
    assert said.endswith("To train on the CPU on purpose, set `device: cpu` in the job file")
    assert "\n" not in said, "a log and a termination message have one line for it"
    (tmp_path / "node-0.out").write_text(f"[default0]:/fsx/runs/small/job.yaml: {said}\n")
    first, *_ = explain(evidence_in(tmp_path))
    assert first.name == rule, first


@pytest.mark.parametrize("told", [P5, TRN2, None], ids=["GPUs", "Trainium", "nothing"])
@pytest.mark.parametrize("device", ["accelerator", "cpu"])
def test_a_job_on_a_node_with_accelerators_ends_before_its_data_is_read_unless_the_cpu_is_meant(
    told: StatedAccelerators | None, device: str, job: dict[str, Any], start_rank: StartRank, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job | {"device": device, "data": {"train": "nowhere"}}))
    variables = {} if told is None else {VARIABLE: json.dumps(asdict(told))}
    rank = start_rank(path, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", **variables)
    said, _ = rank.communicate(timeout=1800)
    assert rank.returncode == 2 and "Traceback" not in said, said
    refused = told is not None and device == "accelerator"
    assert ("To train on the CPU on purpose" in said) == refused, said
    assert ("there are no token shards here" in said) != refused, said


@pytest.mark.parametrize(
    ("stated", "gpus", "ranks", "said"),
    [
        (P5, 8, 8, None),
        (P5, 7, 8, "only 7 of the 8 GPUs"),
        # Of a divided GPU, one rank uses one fraction.
        (P5, 1, 1, None),
        (None, 8, 8, None),
        (None, 2, 8, "this is local rank 0 of 8, but the node has 2 GPUs"),
        (TRN2, 8, 8, "only through the Neuron SDK"),
    ],
)
def test_every_rank_has_a_gpu_or_all_ranks_say_that_some_have_none(
    stated: StatedAccelerators | None, gpus: int, ranks: int, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from training.parallel import device

    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(device, "found_accelerators", lambda _: FoundAccelerators(GPUS, NEW))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    monkeypatch.delenv(VARIABLE, raising=False)
    if stated is not None:
        monkeypatch.setenv(VARIABLE, json.dumps(asdict(stated)))
    if said is None:
        assert device.device_of_rank("accelerator", 0) == torch.device("cuda", 0)
        return
    # The first rank reports for all ranks of its node, so it must see what the last one lacks.
    with pytest.raises(UserError, match=said):
        device.device_of_rank("accelerator", 0)


@pytest.mark.parametrize(
    ("line", "driver"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.223.02  Sat Oct  7 15:39:11 UTC 2023", "470.223.02"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.142  Release Build  (a@b)", "580.142"),
        ("something else", None),
        (None, None),
    ],
)
def test_a_node_is_read_for_its_device_files_and_its_driver(
    line: str | None, driver: str | None, tmp_path: Path
) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "neuron0", "null"):
        (tmp_path / "dev" / name).touch()
    if line is not None:
        file = tmp_path / "proc/driver/nvidia/version"
        file.parent.mkdir(parents=True)
        file.write_text(f"{line}\nGCC version:  gcc version 9.4.0\n")
    assert found_accelerators("nvidia", tmp_path) == (("/dev/nvidia2", "/dev/nvidia10"), driver)
    assert found_accelerators("neuron", tmp_path).device_files == ("/dev/neuron0",)
    assert found_accelerators("neuron", tmp_path / "nowhere") == ((), None)


@pytest.mark.parametrize("text", ["{", "[]", '{"vendor": "nvidia"}', '"8"'])
def test_a_statement_of_another_form_is_an_error_of_its_own(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UserError, match=f"{VARIABLE} is not a JSON object with instance_type.*sets it"):
        stated_accelerators()


def test_the_drivers_that_cuda_requires_are_those_of_the_platform_s_facts() -> None:
    from training.parallel.device import OLDEST_DRIVERS

    assert driver_facts().cuda.oldest_branches == OLDEST_DRIVERS
