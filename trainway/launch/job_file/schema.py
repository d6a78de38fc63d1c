"""The JSON Schema of job files."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from trainway.launch.job_file.on_checkpoint import job_model
from trainway.launch.job_file.run_file import RunFile
from trainway.parts.job import Job


def job_schema() -> dict[str, Any]:
    """Return the JSON Schema of job files, of both forms."""
    files: Any = job_model(RunFile) | job_model(Job)
    return TypeAdapter(files).json_schema()
