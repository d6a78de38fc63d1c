"""Name the directory of a pod that has the job file, and the volume that mounts it."""

from __future__ import annotations

from pathlib import PurePosixPath

VOLUME = "job-file"
DIRECTORY = PurePosixPath("/etc/trainway")
JOB_FILE = DIRECTORY / "job.yaml"
