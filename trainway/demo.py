"""The whole path on one machine: deploy to an emulated AWS, train from the hand-off of that deploy, and report.

Every stage is a command that a user could type, with the environment of the emulator.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from trainway.launch.job_file.training_program import training_program
from trainway.launch.local import job_failed, render_local, run_local
from trainway.launch.platform.hand_off import read_hand_off, read_image
from trainway.launch.program.locations import local_roots
from trainway.launch.runs.run_directory import default_run_directory, make_run_directory
from trainway.parts.checkout import CHECKOUT, cdk_app, child_environment
from trainway.parts.extras import require_extras
from trainway.parts.job import Job
from trainway.report import summarize, write_report
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff
from trainway.spec.loader import load, load_platform
from trainway.spec.platform import Platform
from trainway.stages import Stages

if TYPE_CHECKING:
    from emulator import Emulator

# Text that is on every machine with Python, small enough to be prepared in seconds.
CORPUS = ["--corpus", "python-stdlib", "--limit-bytes", "2000000", "--vocabulary", "2048"]

# No more than there is to do beside the slowest: the emulator is one process.
STACKS_AT_ONCE = "4"


def run_demo(platform_file: Path, job_file: Path, *, processes: int, run: Path | None) -> None:
    """Run the path, with one line per stage on the terminal and everything else in a log beside the run.

    Raises UsageError when a stage fails, with its last lines and its command, or when an extra is not installed.
    """
    require_extras("trainway demo", "emulator", "platform", "report", "training")
    from emulator import running

    platform, job = load_platform(platform_file), load(job_file, Job)
    program = training_program(job, job_file.read_text(encoding="utf-8"))
    directory = run or default_run_directory(job.name)
    with ExitStack() as until_the_end:
        stages = until_the_end.enter_context(closing(Stages(directory.parent / f"{directory.name}.log")))
        stages.say(f"log: {stages.log}")
        with stages.stage("start an emulated AWS"):
            emulator = until_the_end.enter_context(running(region=platform.region))
        until_the_end.enter_context(_environment({**emulator.child_environment(), **child_environment()}))
        _deploy(stages, platform, platform_file)
        hand_off = _read_hand_off(stages, platform)
        _say_what_was_created(stages, emulator)
        locations = {"TRAINWAY_LOCATIONS": json.dumps(local_roots(program, hand_off))}
        with stages.stage(f"prepare {job.data.train}"), _environment({**os.environ, **locations}):
            stages.run([sys.executable, "-m", "training.prepare", *CORPUS, "--out", job.data.train])
        title = f"train {job.name} on {processes} processes"
        with stages.steps(title, job.steps, lambda: _steps_done(directory)) as log:
            make_run_directory(program.text, directory)
            _write_deployment(directory, platform, emulator)
            launched = render_local(program, directory, processes=processes, hand_off=hand_off)
            options = {"platform_file": str(platform_file), "processes": processes}
            if exit_status := run_local(launched, directory, options, output=log):
                raise job_failed(directory, exit_status)
        _say_what_was_kept(stages, hand_off)
        summary = summarize(directory)
        if summary.first_loss is not None and summary.final_loss is not None:
            stages.say(f"loss {summary.first_loss:.4f} → {summary.final_loss:.4f} in {summary.steps} steps")
        stages.say(f"report: {write_report(directory).resolve()}")


def _deploy(stages: Stages, platform: Platform, platform_file: Path) -> None:
    cdk = _cdk()
    # If the CDK's command line finds an app in a cdk.json, it synthesizes the app before it bootstraps an environment.
    with stages.stage("cdk bootstrap"), TemporaryDirectory() as without_app:
        environment = f"aws://{os.environ['CDK_DEFAULT_ACCOUNT']}/{platform.region}"
        stages.run([*cdk, "bootstrap", environment], Path(without_app))
    with stages.stage(f"cdk deploy --all, from {platform_file}"):
        app = ["--app", cdk_app()]
        options = ["--require-approval", "never", "--progress", "events", "--context", f"platform={platform_file}"]
        stages.run(
            [*cdk, "deploy", "--all", *app, "--import-existing-resources", "--concurrency", STACKS_AT_ONCE, *options]
        )


def _cdk() -> list[str]:
    """Return the checkout's own CDK command line, on the Node beside this interpreter, or else the `cdk` on PATH."""
    script = CHECKOUT / "node_modules/aws-cdk/bin/cdk"
    beside = Path(sys.executable).with_name("node")
    node = str(beside) if beside.exists() else shutil.which("node")
    if node and script.exists():
        return [node, str(script)]
    if installed := shutil.which("cdk"):
        return [installed]
    package = json.loads((CHECKOUT / "package.json").read_text(encoding="utf-8"))
    fix = f"run `make setup` in a checkout, or `npm install --global aws-cdk@{package['devDependencies']['aws-cdk']}`"
    raise usage_error("cdk cannot start", why="the CDK command line is not installed here", fix=fix)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Replace the whole environment during the block, so that nothing uses the user's AWS settings."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _read_hand_off(stages: Stages, platform: Platform) -> HandOff:
    with stages.stage("read the hand-off of the deploy"):
        hand_off = read_hand_off(platform)
        image = read_image(platform, hand_off)
    stages.say(f"   bucket {hand_off.bucket}, cluster {hand_off.cluster.name}, image {image}")
    return hand_off


def _say_what_was_created(stages: Stages, emulator: Emulator) -> None:
    """Name every resource type that has no service behind it here, so that nothing is skipped silently."""
    resources = emulator.resources()
    recorded = Counter(resource["type"] for resource in resources if resource["depth"] == "record")
    stages.say(f"   {len(resources) - recorded.total()} resources are held by emulated services.")
    stages.say(f"   {recorded.total()} were checked against AWS's published schemas and recorded. Nothing runs behind:")
    types = ", ".join(f"{kind.removeprefix('AWS::')} ×{count}" for kind, count in sorted(recorded.items()))
    stages.say(textwrap.indent(textwrap.fill(types, 100, break_on_hyphens=False), "     "))


def _steps_done(run: Path) -> tuple[int, str]:
    """Return the last step in a run's metrics, and its loss as text."""
    metrics = run / "metrics.jsonl"
    # The last bytes hold some whole lines, of which the last one may still be written.
    tail = metrics.read_bytes()[-4096:] if metrics.exists() else b""
    for line in reversed(tail.split(b"\n")[:-1]):
        with suppress(ValueError):
            event = json.loads(line)
            if event["event"] == "step":
                return event["step"], f"loss {event['loss']:.3f}"
    return 0, ""


def _say_what_was_kept(stages: Stages, hand_off: HandOff) -> None:
    import boto3

    root = hand_off.bucket
    listed = boto3.client("s3").list_objects_v2(Bucket=root, Prefix="checkpoints/").get("Contents", [])
    size = sum(each["Size"] for each in listed)
    stages.say(f"   {len(listed)} checkpoint objects in the emulated S3, {size} bytes:")
    for steps in sorted({"/".join(each["Key"].split("/")[:3]) for each in listed}):
        stages.say(f"     s3://{root}/{steps}")


def _write_deployment(directory: Path, platform: Platform, emulator: Emulator) -> None:
    document = {
        "platform": platform.name,
        "endpoint": emulator.endpoint,
        "emulated": True,
        "resources": emulator.resources(),
    }
    (directory / "deployment.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
