"""Read a job file, and report every problem in a sentence."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from training.config.job import Job
from training.config.job_yaml import TwoThings, read_yaml

# Sections with the options of the launcher's own targets (trainway/launch/target/options.py). The job ignores them.
LAUNCHER_SECTIONS = ("local", "slurm", "kubernetes", "sagemaker")
# The launcher reads this key (trainway/launch/job_file/on_checkpoint.py).
_OF_LAUNCHER = (*LAUNCHER_SECTIONS, "on_checkpoint")


class WrongJobFile(Exception):
    """The exception for a job file with problems. The training job reports it, and exits with status 2."""


def load(path: Path) -> Job:
    """Return the job of a job file.

    Raises:
        WrongJobFile: the message names every problem of the file, each on its own line.
    """
    try:
        document = read_yaml(path.read_text(encoding="utf-8"))
    except TwoThings as error:
        raise WrongJobFile(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise WrongJobFile(f"cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise WrongJobFile(f"is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise WrongJobFile("is not a mapping of keys to values; see examples/jobs/tiny.yaml")
    try:
        return Job.model_validate({key: value for key, value in document.items() if key not in _OF_LAUNCHER})
    except ValidationError as error:
        raise WrongJobFile("\n".join(_sentence(problem) for problem in error.errors(include_url=False))) from error


def _sentence(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    found = "" if problem["type"] == "missing" else f" (found {problem['input']!r})"
    remedy = problem.get("ctx", {}).get("remedy")
    return f"{key}: {problem['msg']}{found}" + (f"; {remedy}" if remedy else "")
