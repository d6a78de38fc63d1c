"""`trainway image`: build, watch, and choose the training image of a deployed platform."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainway.commands.launching import DEFAULT_PLATFORM, PlatformFile
from trainway.spec.errors import UsageError

if TYPE_CHECKING:
    from trainway.delivery.images import PlatformImages
    from trainway.diff.account import AwsAccount

app = typer.Typer(help="Build, watch, and choose the training image of a deployed platform.", no_args_is_help=True)
# What the stacks call a platform's pipelines, after its name.
PIPELINES = ("image", "mirror", "cluster", "autoscaling", "file-system")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.command()
def build(platform_file: PlatformFile = DEFAULT_PLATFORM) -> None:
    """Run the image pipeline on what was deployed, and wait for its end. An image that exists is not built again."""
    name, account, images = _deployed(platform_file)
    _run(name, account, {})
    _use(name, account, images, images.built.uri.rpartition(":")[2], "built again")


@app.command()
def status(platform_file: PlatformFile = DEFAULT_PLATFORM, as_json: AsJson = False) -> None:
    """Show which images exist, which one jobs use, and how the last run of the pipeline ended."""
    from trainway.delivery import images as stored
    from trainway.delivery.pipeline_run import last_run, run_as_json

    name, account, images = _deployed(platform_file)
    run = last_run(account.client, f"{name}-image")
    if as_json:
        print(stored.json_text(stored.as_json(images) | {"last_run": run_as_json(run)}))
        return
    print(f"jobs use {images.pinned} ({images.because})")
    if not images.exists:
        print("  It is gone. `trainway image rebuild` builds it again, and so does the next deploy.")
    for each in images.stored:
        print(f"  {each.digest}  {each.bytes / 2**30:5.1f} GiB  {each.pushed:%Y-%m-%d %H:%M}  {', '.join(each.tags)}")
    if run:
        print(f"the last run of {run.pipeline}: {run.status}")
        for reason in run.reasons:
            print(f"  {reason}")


@app.command()
def log(
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until the build ends.")] = False,
) -> None:
    """Print the log of the last build."""
    from trainway.delivery.pipeline_run import log_lines

    name, account = _account(platform_file)
    try:
        for line in log_lines(account.client, f"{name}-image", follows=follow):
            print(line, flush=follow)
    except KeyboardInterrupt:
        # Ctrl-C ends the command, and not the build.
        raise typer.Exit from None


@app.command()
def rebuild(
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    again: Annotated[
        bool,
        typer.Option("--again", help="Build a second image of the same content. Default: build only what is gone."),
    ] = False,
) -> None:
    """Build the image again if it is gone, and make jobs use it."""
    from trainway.delivery.images import again_tag

    name, account, images = _deployed(platform_file)
    if images.exists and not again:
        print(f"{images.pinned} exists")
        return
    word, tag = again_tag(images) if again else ("no", images.built.uri.rpartition(":")[2])
    if not again:
        print(f"{images.pinned} is gone and is built again", file=sys.stderr)
    _run(name, account, {"IMAGE_AGAIN": word} if again else {})
    _use(name, account, images, tag, "built again")


@app.command()
def watch(platform_file: PlatformFile = DEFAULT_PLATFORM) -> None:
    """Print why a delivery pipeline of the platform fails, as soon as it does. Ends with Ctrl-C."""
    from trainway.delivery.pipeline_run import watch as watch_pipelines

    name, account = _account(platform_file)
    names = [f"{name}-{each}" for each in PIPELINES]
    try:
        watch_pipelines(account.client, names, lambda line: print(line, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        raise typer.Exit from None


@app.command()
def promote(
    image: Annotated[
        str,
        typer.Argument(
            metavar="IMAGE@DIGEST",
            help="Image of another platform by its digest, for example "
            "111122223333.dkr.ecr.us-west-2.amazonaws.com/dev/training@sha256:…",
        ),
    ],
    platform_file: PlatformFile = DEFAULT_PLATFORM,
) -> None:
    """Copy an image of another platform into this platform's repository, and make jobs use it."""
    from trainway.delivery.images import choose, copy_image
    from trainway.diff.account import AwsAccount

    name, account, images = _deployed(platform_file)

    def client(service: str, region: str) -> Any:
        return (account if region == account.region else AwsAccount(region)).client(service)

    digest = copy_image(client, images, image, lambda line: print(line, file=sys.stderr))
    print(f"jobs use {choose(account.client, name, images, digest, f'promoted from {image}')}")


def image_that_is_gone(platform_file: Path) -> str | None:
    """Return the image that jobs use if ECR does not have it, or None.

    None also if nothing is deployed, AWS refuses to show it, or AWS is an emulated one, which builds no images.
    """
    from trainway.delivery.images import images_of

    if os.environ.get("AWS_ENDPOINT_URL"):
        return None
    try:
        name, account = _account(platform_file)
        images = images_of(account.client, name)
    except UsageError:
        return None
    return None if images is None or images.exists else images.pinned


def _account(platform_file: Path) -> tuple[str, AwsAccount]:
    """Return the name of a platform and its AWS account. Raises UsageError without credentials."""
    from trainway.diff.account import AwsAccount
    from trainway.spec.loader import load_platform

    platform = load_platform(platform_file)
    return platform.name, AwsAccount(platform.region)


def _deployed(platform_file: Path) -> tuple[str, AwsAccount, PlatformImages]:
    from trainway.delivery.images import images_of, not_deployed

    name, account = _account(platform_file)
    images = images_of(account.client, name)
    if images is None:
        raise not_deployed(name)
    return name, account, images


def _run(name: str, account: AwsAccount, variables: dict[str, str]) -> None:
    from trainway.delivery.pipeline_run import follow, start

    pipeline = f"{name}-image"
    run = start(account.client, pipeline, variables)
    print(f"{pipeline} runs: {run}", file=sys.stderr)
    follow(account.client, pipeline, run, lambda line: print(f"  {line}", file=sys.stderr))


def _use(name: str, account: AwsAccount, images: PlatformImages, tag: str, because: str) -> None:
    from trainway.delivery.images import choose, digest_of

    digest = digest_of(account.client, images, tag)
    print(f"jobs use {choose(account.client, name, images, digest, because)}")
