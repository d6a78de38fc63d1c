"""`trainway tune` proposes keys that a job file takes, says what it assumes, and needs no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from trainway.launch.job_file.programs import load_program
from trainway.launch.tuning.layout_runs import write_job_files
from trainway.launch.tuning.tuning import Tuning, check_measurable, shown, tuned
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue

CATALOGUE = load_catalogue()
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/jobs/llama-8b.yaml"


@pytest.fixture(scope="module")
def tuning() -> Tuning:
    """Return the fastest of the layouts on 32 GPUs. The search evaluates over a thousand."""
    return tuned(EXAMPLE, "p5.48xlarge", 3, CATALOGUE)


def test_the_fastest_layouts_are_keys_of_a_job_file(tuning: Tuning) -> None:
    head, columns, *lines = shown(tuning).splitlines()
    assert head.startswith("llama-8b on 4 x p5.48xlarge, 32 H100: ")
    assert columns.split() == ["step", "s", "GiB", "keys", "of", "the", "job", "file"]
    assert lines[3] == "Nothing was run. The estimate assumes that"
    rows = [line.split(maxsplit=2) for line in lines[:3]]
    assert [float(seconds) for seconds, _, _ in rows] == sorted(float(seconds) for seconds, _, _ in rows)
    for _, gib, keys in rows:
        assert 0 < int(gib) <= 76
        assert yaml.safe_load("{" + keys + "}").keys() == {"parallel", "batch", "memory"}


def test_every_proposed_layout_can_be_launched(tuning: Tuning, tmp_path: Path) -> None:
    for file in write_job_files(EXAMPLE, [each.changes for each in tuning.fastest], tmp_path):
        load_program(file).check_ranks(tuning.ranks)


@pytest.mark.parametrize(
    ("instance_type", "changes", "said"),
    [
        ("p5.47xlarge", {}, "there is no instance type p5.47xlarge"),
        ("trn1.32xlarge", {}, "the rates of NVLink are known only for A100, H100"),
        ("p5.48xlarge", {"precision": "fp32"}, "products in 16 bits only"),
        # Every layout is estimated.
        pytest.param(
            *("p5.48xlarge", {"model": "70b", "nodes": 1}, "no layout on 8 H100 needs at most 76 GiB"),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_what_cannot_be_tuned_is_refused(
    instance_type: str, changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(EXAMPLE.read_text()) | changes))
    with pytest.raises(UsageError, match=said):
        tuned(file, instance_type, 3, CATALOGUE)


def test_layouts_are_measured_only_with_all_gpus_of_the_job(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="the job has 32 GPUs, and this machine has 0"):
        check_measurable(tuning)
    listed = tmp_path / "nvidia-smi"
    listed.write_text("#!/bin/sh\nfor gpu in 0 1 2 3 4 5 6 7; do echo GPU $gpu: NVIDIA H100; done\n")
    listed.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(UsageError, match="the job has 32 GPUs, and this machine has 8"):
        check_measurable(tuning)


def test_a_program_without_a_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: theirs\nrun: {command: train.py}\n")
    with pytest.raises(UsageError, match="does not know the layout of other programs"):
        tuned(file, "p5.48xlarge", 3, CATALOGUE)


def test_a_proposal_imports_neither_torch_nor_boto3(tmp_path: Path) -> None:
    # One node has fewer layouts than the four of the example.
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(EXAMPLE.read_text()) | {"nodes": 1}))
    program = (
        "import sys; from trainway.cli import app; "
        f"app(['tune', {str(file)!r}, '--instance-type', 'p5.48xlarge', '--count', '1'], standalone_mode=False); "
        "sys.exit(bool({'torch', 'boto3', 'aws_cdk'} & sys.modules.keys()))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True)
