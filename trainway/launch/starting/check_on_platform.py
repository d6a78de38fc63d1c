"""Check a job against a platform file, without the account of the platform."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from trainway.launch.job_file.programs import load_program
from trainway.launch.job_file.sweep import Point
from trainway.launch.starting.prepare import Launch
from trainway.launch.starting.start import prepared, rendered
from trainway.launch.target.known import own_target
from trainway.spec.platform import Platform


def check_on_platform(job_file: Path, platform_file: Path, platform: Platform) -> list[str]:
    """Check a job as a launch on the cluster of the platform of a file does. Return what a launch prints.

    The platform is what its file describes, whether it is deployed or not. Raises SpecError with every problem of a
    file, and UsageError for a job that does not fit the platform.
    """
    launch = Launch([Point(load_program(job_file), {})], platform_file, dry_run=True, source="file", loaded=platform)
    target = own_target(platform)
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed):
        launch, requests = prepared(target, launch, {})
        rendered(target, requests, launch.options)
    return printed.getvalue().splitlines()
