"""Run directories as a job leaves them."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainway.report import write_report

CHECKPOINT_EVERY = 4
BREAKDOWN = {"data_wait": 0.01, "forward": 0.2, "backward": 0.4, "optimizer": 0.05, "checkpoint": 0.0, "other": 0.04}


def loss_at(step: int) -> float:
    """The loss that a step reports unless the test says otherwise."""
    return 2.0 + 6.0 * math.exp(-step / 8)


@dataclass
class RunDirectory:
    """Writes a run directory event by event, one second apart. Every event takes changes to its usual values."""

    path: Path
    now: float = 1_795_270_191.0

    def start(self, **changes: Any) -> RunDirectory:
        """The start event of a job of ten steps on two CPU processes."""
        usual = {
            "job": "tiny",
            "model": "tiny",
            "parameters": 2_361_024,
            "world_size": 2,
            "device": "cpu",
            "precision": "fp32",
            "steps": 10,
            "resumed_from": None,
            "tokens_per_step": 4096,
            "flop_per_token": 16_525_440.0,
            "torch": "2.13.0",
            "startup_seconds": 0.0,
            "load_seconds": 0.0,
        }
        return self.event("start", usual | changes)

    def step(self, number: int, **changes: Any) -> RunDirectory:
        """One step."""
        loss = changes.get("loss", loss_at(number))
        breakdown = BREAKDOWN | ({"checkpoint": 0.3} if number % CHECKPOINT_EVERY == 0 else {})
        seconds = sum(breakdown.values())
        usual = {
            "step": number,
            "loss": loss,
            "loss_hex": loss.hex(),
            "grad_norm": 1.0 + 1.0 / number,
            "learning_rate": 0.004 / number,
            "tokens": 4096 * number,
            "step_seconds": seconds,
            "tokens_per_second": 4096 / seconds,
            "mfu": None,
            "breakdown": breakdown,
        }
        return self.event("step", usual | changes)

    def steps(self, first: int, last: int, **changes: Any) -> RunDirectory:
        """Steps first to last, both included, with a checkpoint before every fourth step's event, as the job does."""
        for number in range(first, last + 1):
            if number % CHECKPOINT_EVERY == 0:
                location = f"s3://corpus/checkpoints/step-{number:08}"
                self.event("checkpoint", {"step": number, "location": location, "seconds": 0.3})
            self.step(number, **changes)
        return self

    def end(self, step: int) -> RunDirectory:
        """The end event after a step."""
        return self.event("end", {"step": step, "loss": loss_at(step), "loss_hex": loss_at(step).hex(), "seconds": 9.0})

    def event(self, event: str, values: dict[str, Any]) -> RunDirectory:
        """Any event."""
        self.now += 1
        return self.text(json.dumps({"event": event, "time": self.now} | values) + "\n")

    def text(self, text: str) -> RunDirectory:
        """Anything at all at the end of metrics.jsonl."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(text)
        return self

    def document(self, name: str, content: Any) -> RunDirectory:
        """A JSON document beside the metrics."""
        (self.path / name).write_text(json.dumps(content), encoding="utf-8")
        return self


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """An empty run directory."""
    return RunDirectory(tmp_path)


LAUNCH = {
    "target": "local",
    "command": ["torchrun", "--nproc-per-node", "2", "-m", "training.train", "--config", "my jobs/tiny.yaml"],
    "environment": {"TRAINWAY_RUN": "runs/tiny", "TRAINWAY_LOCATIONS": '{"s3": "s3://corpus"}'},
    "started": "2026-11-21T14:09:51+00:00",
    "ended": "2026-11-21T14:11:03+00:00",
    "exit_status": 0,
}
RESOURCES = [
    ("atlas-network", "Vpc", "AWS::EC2::VPC", "vpc-0a1b", "service"),
    ("atlas-network", "Egress", "AWS::EC2::SecurityGroupEgress", "sgr-0c2d", "record"),
    ("atlas-network", "Ingress", "AWS::EC2::SecurityGroupIngress", "sgr-0e3f", "record"),
    ("atlas-cluster", "Role", "AWS::IAM::Role", "atlas-cluster-Role-1A2B", "service"),
    ("atlas-cluster", "Cluster", "AWS::SageMaker::Cluster", "arn:aws:sagemaker:::cluster/x1", "record"),
]


@pytest.fixture
def launch() -> dict[str, Any]:
    """What the launcher writes about a job that ended well."""
    return copy.deepcopy(LAUNCH)


@pytest.fixture
def deployment() -> dict[str, Any]:
    """A platform of two stacks on an emulated AWS: two resources that a service holds, three that are recorded."""
    return make_deployment()


def make_deployment() -> dict[str, Any]:
    """deployment.json as the demo writes it."""
    names = ("stack", "logical_id", "type", "physical_id", "depth")
    resources = [dict(zip(names, row, strict=True)) | {"status": "CREATE_COMPLETE"} for row in RESOURCES]
    return {"platform": "atlas", "endpoint": "http://localhost:4566", "emulated": True, "resources": resources}


def write_full_run(path: Path) -> RunDirectory:
    """A run that was broken off and resumed, with every document beside it."""
    run = RunDirectory(path)
    (run.path / "job.yaml").write_text("name: tiny\nsteps: 10  # <few>\n")
    run.start().steps(1, 6).start(resumed_from=4).steps(5, 10).end(10)
    return run.document("launch.json", LAUNCH).document("deployment.json", make_deployment())


@pytest.fixture
def full(tmp_path: Path) -> RunDirectory:
    """A whole run directory of the test's own."""
    return write_full_run(tmp_path)


@pytest.fixture(scope="session")
def full_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a whole run directory, drawn once for all who only read it."""
    return write_report(write_full_run(tmp_path_factory.mktemp("full")).path).read_text(encoding="utf-8")
