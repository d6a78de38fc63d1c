"""Read a job file, and report every problem in a sentence."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import ValidationError

from training.config.job import Job
from training.config.job_yaml import TwoThings, read_yaml

# Sections with the options of the launcher's own targets (trainway/launch/target/sections.py). The job ignores them.
LAUNCHER_SECTIONS = ("local", "slurm", "kubernetes", "sagemaker")
# The launcher reads this key (trainway/launch/job_file/on_checkpoint.py).
_OF_LAUNCHER = (*LAUNCHER_SECTIONS, "on_checkpoint")


def load(path: Path) -> Job:
    """Return the job of a job file. If the file is wrong, print every problem to stderr and exit with status 2."""
    try:
        document = read_yaml(path.read_text(encoding="utf-8"))
    except TwoThings as error:
        _refuse([str(error)], path)
    except (OSError, UnicodeDecodeError) as error:
        _refuse([f"cannot be read: {error}"], path)
    except yaml.YAMLError as error:
        _refuse([f"is not YAML: {error}"], path)
    if not isinstance(document, dict):
        _refuse(["is not a mapping of keys to values; see examples/jobs/tiny.yaml"], path)
    try:
        return Job.model_validate({key: value for key, value in document.items() if key not in _OF_LAUNCHER})
    except ValidationError as error:
        _refuse([_sentence(problem) for problem in error.errors(include_url=False)], path)


def _sentence(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    found = "" if problem["type"] == "missing" else f" (found {problem['input']!r})"
    remedy = problem.get("ctx", {}).get("remedy")
    return f"{key}: {problem['msg']}{found}" + (f"; {remedy}" if remedy else "")


def _refuse(problems: list[str], path: Path) -> NoReturn:
    # All ranks of a host read the same file, so one of them reports for all.
    if os.environ.get("LOCAL_RANK", "0") == "0":
        for problem in problems:
            print(f"{path}: {problem}", file=sys.stderr)
    sys.exit(2)
