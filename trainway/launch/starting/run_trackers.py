"""Whether the trackers of a job can be reached, and have their packages, as far as that is known before a launch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from trainway.launch.program.program import Program
from trainway.launch.starting.job_packages import TargetPython
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.platform import Platform

PIP_HERE = f"{sys.executable} -m pip install {{}}"
PIP_IN_IMAGE = "add {} to `image.packages.pip` of the platform file, run `trainway image lock`, and deploy"


def check_tracker_packages(program: Program, python: Callable[[], TargetPython], fix: str) -> None:
    """Raise UsageError if the Python that runs Trainway's own job lacks the package of a tracker.

    `fix` says how to install a package, whose name stands for `{}`. Another program brings its packages itself. Those
    of an image that the user built are unknown, and the run then says at its start what is missing.
    """
    if not program.trackers.packages:
        return
    try:
        found = python()
    except UsageError:
        return
    for tracker, package in _missing(program, found):
        what = f"{program.name} cannot report to trackers.{tracker}"
        raise usage_error(what, why=f"the package {package} is not installed", fix=fix.format(package))


def _missing(program: Program, python: TargetPython) -> Iterator[tuple[str, str]]:
    for tracker, packages in program.trackers.packages.items():
        for wanted in packages:
            choices = wanted.split("|")
            if not any(each in python.packages for each in choices):
                yield tracker, choices[0]


def check_tracker_rights(program: Program, platform: Platform) -> None:
    """Raise UsageError if the role of the jobs may not report to the MLflow of SageMaker that a job file names."""
    for tracker, arn in program.trackers.of_aws.items():
        if arn == platform.observability.mlflow:
            continue
        allowed = platform.observability.mlflow or "none"
        raise usage_error(
            f"{program.name} cannot report to trackers.{tracker}",
            why=f"jobs on {platform.name} may not call {arn}; `observability.mlflow` of the platform file is {allowed}",
            fix=f"set `observability: {{mlflow: {arn}}}` in the platform file, and deploy",
        )


def check_tracker_network(program: Program, platform: Platform) -> None:
    """Raise UsageError for a tracker on the internet if the network of the platform is closed."""
    if not platform.network.is_closed:
        return
    why = f"{platform.name} has `network.access: closed`, and its nodes cannot reach"
    what = f"{program.name} cannot report to trackers"
    for tracker, (host, fix) in program.trackers.outside.items():
        raise usage_error(f"{what}.{tracker}", why=f"{why} {host}", fix=fix)
    # An existing VPC may have the endpoint: https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-private-link.html
    # (read 2026-11-27)
    if platform.network.existing is None:
        fix = "set `tracking_uri` to a server in your network, or use an existing VPC with the endpoint"
        for tracker in program.trackers.of_aws:
            reason = f"{why} SageMaker's MLflow, for which the VPC has no endpoint"
            raise usage_error(f"{what}.{tracker}", why=reason, fix=fix)
