"""What `make run` does, with a shorter job: deploy, train from what the deploy handed over, report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def test_a_platform_file_becomes_a_trained_model(tmp_path: Path) -> None:
    job = yaml.safe_load((ROOT / "examples/jobs/tiny.yaml").read_text())
    job |= {"steps": 12, "checkpoint": {"every": 6, "keep": 2}, "schedule": {"warmup_steps": 2}}
    job["batch"] = {"global": 8, "micro": 2}
    job["data"] |= {"sequence_length": 64, "cache": str(tmp_path / "cache")}
    job_file = tmp_path / "job.yaml"
    job_file.write_text(yaml.safe_dump(job))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "trainway.cli", "demo", f"--job={job_file}", f"--run={run}"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]

    found = re.search(r"loss ([\d.]+) → ([\d.]+) in 12 steps", ran.stdout)
    assert found and float(found[2]) < float(found[1]) - 1, ran.stdout[-1000:]
    assert re.search(r"\d+ checkpoint objects in the emulated S3", ran.stdout)
    assert "s3://first-data-" in ran.stdout and "step-00000012" in ran.stdout
    assert "Nothing runs behind" in ran.stdout and "CodePipeline::Pipeline" in ran.stdout
    assert len(ran.stdout.splitlines()) <= 40, "a line per stage; everything else is in the log"
    log = (tmp_path / "run.log").read_text(encoding="utf-8")
    assert "CREATE_COMPLETE" in log and re.search(r"step=12", log)

    report = (run / "report.html").read_text(encoding="utf-8")
    assert ran.stdout.rstrip().endswith(str(run / "report.html"))
    assert "first-cluster" in report and "AWS::CodePipeline::Pipeline" in report
    assert not re.search(r'(src|href)="https?://', report), "the page must open without a network"
    stacks = {resource["stack"] for resource in json.loads((run / "deployment.json").read_text())["resources"]}
    assert stacks >= {f"first-{role}" for role in ("network", "storage", "image", "cluster", "observability")}
