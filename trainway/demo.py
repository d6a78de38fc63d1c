"""The whole path on one machine: deploy to an emulated AWS, train from what the deploy handed over, report.

Every step is a command that a user could type; this only types them, with the emulator's environment.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from training.config import Job
from trainway.emulator import Emulator, running
from trainway.launch.hand_off import read_hand_off, read_image
from trainway.launch.local import job_failed, render_local, run_local
from trainway.launch.locations import local_roots
from trainway.launch.run_directory import default_run_directory, make_run_directory
from trainway.report import summarize, write_report
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff
from trainway.spec.loader import load, load_platform
from trainway.spec.platform import Platform

# Text that is on every machine with Python, small enough to be prepared in seconds.
CORPUS = ["--corpus", "python-stdlib", "--limit-bytes", "6000000", "--vocabulary", "2048"]

# No more than there is to do beside the slowest: the emulator is one process.
STACKS_AT_ONCE = "4"


def run_demo(platform_file: Path, job_file: Path, *, processes: int, run: Path | None) -> None:
    """Runs the path, printing each step's progress. Raises UsageError when a step fails, with its command."""
    platform, job = load_platform(platform_file), load(job_file, Job)
    directory = run or default_run_directory(job.name)
    with ExitStack() as until_the_end:
        with _step("starting an emulated AWS"):
            emulator = until_the_end.enter_context(running(region=platform.region))
        until_the_end.enter_context(_environment(emulator.child_environment()))
        _deploy(platform, platform_file)
        hand_off = _read_hand_off(platform)
        _say_what_was_made(emulator)
        locations = {"TRAINWAY_LOCATIONS": json.dumps(local_roots(job, hand_off))}
        with _step(f"preparing {job.data.train}"), _environment({**os.environ, **locations}):
            _run([sys.executable, "-m", "training.prepare", *CORPUS, "--out", job.data.train])
        with _step(f"training {job.name} on {processes} processes"):
            make_run_directory(job_file.read_text(encoding="utf-8"), directory)
            _write_deployment(directory, platform, emulator)
            launched = render_local(job, directory, processes=processes, hand_off=hand_off)
            options = {"platform_file": str(platform_file), "processes": processes}
            if exit_status := run_local(launched, directory, options):
                raise job_failed(directory, exit_status)
        _say_what_was_kept(hand_off, job)
    summary = summarize(directory)
    if summary.first_loss is not None and summary.final_loss is not None:
        print(f"\nloss {summary.first_loss:.4f} → {summary.final_loss:.4f} in {summary.steps} steps")
    print(f"report: {write_report(directory).resolve()}")


def _deploy(platform: Platform, platform_file: Path) -> None:
    cdk = _cdk()
    with _step("cdk bootstrap"):
        _run([*cdk, "bootstrap", f"aws://{os.environ['CDK_DEFAULT_ACCOUNT']}/{platform.region}"])
    with _step(f"cdk deploy --all, from {platform_file}"):
        options = ["--require-approval", "never", "--progress", "events", "--context", f"platform={platform_file}"]
        _run([*cdk, "deploy", "--all", "--import-existing-resources", "--concurrency", STACKS_AT_ONCE, *options])


def _cdk() -> list[str]:
    """The project's own CDK command line, on the Node beside this interpreter, else on the one on PATH."""
    script = Path("node_modules/aws-cdk/bin/cdk")
    beside = Path(sys.executable).with_name("node")
    node = str(beside) if beside.exists() else shutil.which("node")
    if node is None or not script.exists():
        raise usage_error("cdk cannot start", why="the CDK command line is not installed here", fix="make setup")
    return [node, str(script)]


@contextmanager
def _step(title: str) -> Iterator[None]:
    print(f"\n── {title}", flush=True)
    began = time.monotonic()
    yield
    print(f"   {time.monotonic() - began:.1f} s", flush=True)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Makes these the whole environment for a block, for boto3 here and for every command: no user's AWS leaks in."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _run(command: list[str]) -> None:
    """Runs a command with its output shown as it comes."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    assert process.stdout is not None  # it was asked for
    for line in process.stdout:
        # That something begins is said again, and better, when it is done.
        if line.strip() and "_IN_PROGRESS" not in line:
            print(f"   │ {line.rstrip()}", flush=True)
    if process.wait() != 0:
        line = shlex.join(command)
        raise usage_error("the step failed", why=f"the command above ended with {process.returncode}", fix=line)


def _read_hand_off(platform: Platform) -> HandOff:
    with _step("reading the hand-off that the deploy wrote"):
        hand_off = read_hand_off(platform)
        image = read_image(platform, hand_off)
        print(f"   │ bucket {hand_off.bucket}, cluster {hand_off.cluster.name}, image {image}")
    return hand_off


def _say_what_was_made(emulator: Emulator) -> None:
    """Nothing is skipped silently: what has no service behind it here is named, by type."""
    resources = emulator.resources()
    recorded = Counter(resource["type"] for resource in resources if resource["depth"] == "record")
    print(f"\n   {len(resources) - recorded.total()} resources are held by emulated services.")
    print(f"   {recorded.total()} were checked against AWS's published schemas and recorded; nothing behind them runs:")
    for kind, count in sorted(recorded.items()):
        print(f"   │ {count:3} {kind}")


def _say_what_was_kept(hand_off: HandOff, job: Job) -> None:
    import boto3

    root = local_roots(job, hand_off)["s3"].removeprefix("s3://")
    listed = boto3.client("s3").list_objects_v2(Bucket=root, Prefix="checkpoints/").get("Contents", [])
    print(f"\n   {len(listed)} checkpoint objects in the emulated S3, {sum(each['Size'] for each in listed)} bytes:")
    for steps in sorted({"/".join(each["Key"].split("/")[:3]) for each in listed}):
        print(f"   │ s3://{root}/{steps}")


def _write_deployment(directory: Path, platform: Platform, emulator: Emulator) -> None:
    document = {
        "platform": platform.name,
        "endpoint": emulator.endpoint,
        "emulated": True,
        "resources": emulator.resources(),
    }
    (directory / "deployment.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
