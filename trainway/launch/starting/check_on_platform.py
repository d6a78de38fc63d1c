"""Check a job against a platform file, without the account of the platform."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path

from trainway.launch.job_file.programs import load_program
from trainway.launch.job_file.sweep import Point
from trainway.launch.starting.prepare import Launch
from trainway.launch.starting.start import check_jobs, with_requests
from trainway.launch.target.known import own_target
from trainway.spec.document import read_document
from trainway.spec.errors import UsageError
from trainway.spec.platform import Platform
from trainway.spec.problems import ABSENT, Problem, SpecError


def check_on_platform(job_file: Path, platform_file: Path, platform: Platform) -> list[str]:
    """Check a job as a launch on the cluster of the platform of a file does. Return what a launch prints.

    The platform is what its file describes, whether it is deployed or not. Raises SpecError with every problem of a
    file, or with the reason why the job does not fit the platform.
    """
    launch = Launch([Point(load_program(job_file), {})], platform_file, dry_run=True, source="file", loaded=platform)
    target = own_target(platform)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            launch, requests = with_requests(target, launch, {})
            check_jobs(target, requests, launch.options)
    except SpecError:
        raise
    except UsageError as error:
        # A program that reads the problems as JSON finds this one, too.
        raise SpecError([_problem(job_file, error)]) from None
    return printed.getvalue().splitlines()


def _problem(job_file: Path, error: UsageError) -> Problem:
    """Return the error of a launch as a problem of the job file as a whole."""
    what, _, reason = str(error).partition("\n    why: ")
    why, _, fix = reason.partition("\n    fix: ")
    document = read_document(job_file)
    problem = document.problem((), f"{what}: {why}" if why else what, fix or "change the job file")
    return replace(problem, value=ABSENT)
