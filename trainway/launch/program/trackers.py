"""The trackers of a program, as a launch needs to know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


def no_variables(run: str) -> Mapping[str, str]:
    """Return no environment variables."""
    del run
    return {}


@dataclass(frozen=True)
class ProgramTrackers:
    """The trackers that a job file names.

    `packages` has the packages of each tracker by its key. One of those that `|` separates is enough. `outside` has the
    host of each tracker on the internet, and what to write for a tracker in the platform's network instead.
    `of_aws` has the ARN of each tracker that is a service of AWS. `needs_platform_mlflow` is whether the platform file
    names the server of MLflow.
    """

    variables: Callable[[str], Mapping[str, str]] = no_variables
    """Return the environment variables by which the trackers' packages find a run, by its name."""
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outside: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    of_aws: Mapping[str, str] = field(default_factory=dict)
    needs_platform_mlflow: bool = False
