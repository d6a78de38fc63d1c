"""The exporter of Slurm's controller asks a real Slurm which GPUs its jobs have."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.lifecycle_scripts.slurm_cluster import missing, slurm_cluster
from tests.lifecycle_scripts.test_exporters import slurm

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

# Files that every machine has, which nobody opens here.
DEVICES = ("/dev/null", "/dev/zero")
NODES = ("ip-10-0-0-1", "ip-10-0-0-2", "ip-10-0-0-3")


def test_the_gpus_of_jobs_on_whole_nodes_and_on_a_part_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as directory, slurm_cluster(Path(directory), NODES, DEVICES) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        large = cluster.submit("root", 2, "--job-name=large | job", "--gpus-per-node=2")
        cluster.becomes(large, "RUNNING")
        batch = ("sbatch", "--parsable", "--output=/dev/null", "--chdir=/", "--wrap=exec sleep 300")
        small = cluster.ask(*batch, "--gres=gpu:1", "--job-name=small")
        cluster.becomes(small, "RUNNING")
        cluster.becomes(cluster.ask(*batch, "--gres=gpu:2", "--job-name=waits"), "PENDING")
        samples = {name: found for name, _, _, found in slurm.collect()}["slurm_job_gpus"]
        held = {(labels["job_id"], labels["job_name"], labels["node"]): count for labels, count in samples}
        assert held == {
            (large, "large | job", NODES[0]): 2,
            (large, "large | job", NODES[1]): 2,
            (small, "small", NODES[2]): 1,
        }
        assert {(labels["user"], labels["partition"]) for labels, _ in samples} == {("root", "dev")}
        cluster.cancel_all()
        assert {name: found for name, _, _, found in slurm.collect()}["slurm_job_gpus"] == []
