"""`trainway image`: build, watch, and choose the training image of a deployed platform."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainway.commands.platform_file import DEFAULT_PLATFORM, PlatformArgument, PlatformFile
from trainway.commands.printing import AsJson
from trainway.commands.progress import working
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff_names import DEFAULT_IMAGE, image_stack_name

if TYPE_CHECKING:
    from trainway.delivery.images import PlatformImages
    from trainway.diff.account import AwsAccount
    from trainway.spec.platform import Platform

app = typer.Typer(help="Build, watch, and choose the training image of a deployed platform.", no_args_is_help=True)
READING = "reading the images from AWS"
# What the stacks call a platform's other pipelines, after its name.
PIPELINES = ("mirror", "cluster", "autoscaling", "file-system")

ImageName = Annotated[
    str,
    typer.Option(
        "--image",
        metavar="NAME",
        help="Name of the image in the section `images`. Default: the image that the section `image` describes.",
    ),
]


@app.command()
def build(platform_file: PlatformFile = DEFAULT_PLATFORM, image: ImageName = DEFAULT_IMAGE) -> None:
    """Run the image pipeline on what was deployed, and wait for its end. An image that exists is not built again."""
    found = _built(platform_file, image)
    _run(found, {})
    _use(found, found.images.built.uri.rpartition(":")[2], "built again")


@app.command()
def status(
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            metavar="NAME",
            help="Name of the image in the section `images`, or `image`. Default: every image of the platform.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which images exist, which one jobs use, its age and scan, and the pipeline's last run.

    JSON has an object for each image by its name, or with --image the object of that image.
    """
    from trainway.delivery.images import json_text

    told: Callable[[Found], Any] = _status_json if as_json else _status_text
    with working(READING):
        if image is not None:
            only = told(_deployed(platform_file, image))
        else:
            names = _account(platform_file, DEFAULT_IMAGE)[0].image_names
            deployed = {name: _found(platform_file, name) for name in names}
            if not any(deployed.values()):
                # Raises the error for a platform that is not deployed.
                _deployed(platform_file, DEFAULT_IMAGE)
            each = {name: found and told(found) for name, found in deployed.items()}
    if image is not None:
        print(json_text(only) if as_json else only)
    elif as_json:
        print(json_text(each))
    else:
        missing = "not deployed. `make deploy` builds it."
        print("\n".join(f"image {name}: " * (len(each) > 1) + (text or missing) for name, text in each.items()))


def _status_json(found: Found) -> dict[str, Any]:
    from trainway.delivery import images as stored
    from trainway.delivery.pipeline_run import last_run, run_as_json

    images, client = found.images, found.account.client
    run = None if images.is_users else last_run(client, found.pipeline)
    scan = None if images.is_users else stored.scan_of(client, images)
    return stored.as_json(images, scan) | {
        "signature": stored.signature_of(client, images),
        "last_run": run_as_json(run),
    }


def _status_text(found: Found) -> str:
    from trainway.delivery import images as stored
    from trainway.delivery.pipeline_run import last_run

    images, client = found.images, found.account.client
    lines = [f"jobs use {images.pinned} ({images.because})", f"  {stored.age_of_packages(images)}"]
    if images.exists:
        scan = None if images.is_users else stored.scan_of(client, images)
        lines.append(f"  {stored.scan_as_text(scan)}")
    if signature := stored.signature_of(client, images):
        lines.append(f"  {signature}")
    if not images.exists:
        lines.append("  It is gone. `trainway image rebuild` builds it again, and so does the next deploy.")
    lines += [
        f"  {each.digest}  {each.bytes / 2**30:5.1f} GiB  {each.pushed:%Y-%m-%d %H:%M}  {', '.join(each.tags)}"
        for each in images.stored
    ]
    if run := None if images.is_users else last_run(client, found.pipeline):
        lines += [f"the last run of {run.pipeline}: {run.status}", *(f"  {reason}" for reason in run.reasons)]
    return "\n".join(lines)


@app.command()
def sbom(platform_file: PlatformFile = DEFAULT_PLATFORM, image: ImageName = DEFAULT_IMAGE) -> None:
    """Print the packages of the image that jobs use, as an SPDX document in JSON."""
    from trainway.delivery.images import bill_of_materials

    with working(READING):
        found = _deployed(platform_file, image)
        bill = bill_of_materials(found.account.client, found.images)
    print(bill, end="")


@app.command()
def provenance(
    platform_file: PlatformFile = DEFAULT_PLATFORM, image: ImageName = DEFAULT_IMAGE, as_json: AsJson = False
) -> None:
    """Print what the image that jobs use was made of: the images below it, its sources, its locks, and its build.

    With --json, print the statements of in-toto with SLSA's provenance.
    """
    from trainway.delivery.image_provenance import provenance as provenance_of
    from trainway.delivery.image_provenance import provenance_text
    from trainway.delivery.images import json_text

    with working(READING):
        found = _deployed(platform_file, image)
        statements = provenance_of(found.account.client, found.images)
    print(json_text(statements) if as_json else provenance_text(statements))


@app.command()
def log(
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    image: ImageName = DEFAULT_IMAGE,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until the build ends.")] = False,
) -> None:
    """Print the log of the last build."""
    from trainway.delivery.pipeline_run import log_lines

    platform, account = _account(platform_file, image)
    try:
        for line in log_lines(account.client, image_stack_name(platform.name, image), follows=follow):
            print(line, flush=follow)
    except KeyboardInterrupt:
        # Ctrl-C ends the command, and not the build.
        raise typer.Exit from None


@app.command()
def rebuild(
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            metavar="NAME",
            help="Name of the image in the section `images`, or `image`. Default: every image that is gone.",
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Build a second image of the same content, of the one that --image names or else `image`. Default: "
            "build only what is gone.",
        ),
    ] = False,
) -> None:
    """Rebuild images that are gone from the registry, and make jobs use them."""
    from trainway.delivery.images import again_tag

    if again:
        found = _built(platform_file, image or DEFAULT_IMAGE)
        word, tag = again_tag(found.images)
        _run(found, {"IMAGE_AGAIN": word})
        _use(found, tag, "built again")
        return
    for found in [_built(platform_file, image)] if image else _all_built(platform_file):
        pinned = found.images.pinned
        if found.images.exists:
            print(f"{pinned} exists")
            continue
        print(f"{pinned} is gone and is built again", file=sys.stderr)
        _run(found, {})
        _use(found, found.images.built.uri.rpartition(":")[2], "built again")


@app.command()
def watch(platform_file: PlatformFile = DEFAULT_PLATFORM) -> None:
    """Print why a delivery pipeline of the platform fails, as soon as it does. Ends with Ctrl-C."""
    from trainway.delivery.pipeline_run import watch as watch_pipelines

    platform, account = _account(platform_file, DEFAULT_IMAGE)
    names = [image_stack_name(platform.name, image) for image in platform.image_names]
    names += [f"{platform.name}-{each}" for each in PIPELINES]
    try:
        watch_pipelines(account.client, names, lambda line: print(line, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        raise typer.Exit from None


@app.command()
def promote(
    image: Annotated[
        str | None,
        typer.Argument(
            metavar="IMAGE@DIGEST",
            help="Image of another platform by its digest, for example "
            "111122223333.dkr.ecr.us-west-2.amazonaws.com/dev/training@sha256:…. Default: the one that jobs of --from "
            "use.",
        ),
    ] = None,
    platform_file: PlatformFile = DEFAULT_PLATFORM,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Platform file of the platform whose image is promoted."),
    ] = None,
    source_profile: Annotated[
        str | None,
        typer.Option(
            "--from-profile",
            metavar="PROFILE",
            help="AWS profile that reads the image, for one of another account. Default: this shell's credentials.",
        ),
    ] = None,
    name: ImageName = DEFAULT_IMAGE,
) -> None:
    """Copy an image of another platform into this platform's repository, and make jobs use it.

    With --from and --image, it is the image of that name of the other platform.
    """
    from trainway.delivery.images import PINNED, choose, copy_image
    from trainway.diff.account import AwsAccount
    from trainway.extensions.organization.promotion import image_in_use
    from trainway.spec.loader import load_platform

    if (image is None) == (source is None):
        fix = "write an image with its digest, or --from with a platform file"
        raise usage_error(
            "nothing can be promoted",
            why="either an image or a platform to copy from is required, and not both",
            fix=fix,
        )
    target = _built(platform_file, name)
    account = target.account
    because = f"promoted from {image}"
    if source is not None:
        other = _of_image(load_platform(source), name)
        image = image_in_use(AwsAccount(other.region, source_profile).client, other, target.platform)
        because = f"promoted from {other.name}: {image}"
    assert image is not None
    found = PINNED.fullmatch(image)

    def client(service: str, region: str, registry: str) -> Any:
        is_source = found is not None and registry == found["registry"] and source_profile is not None
        if is_source:
            return AwsAccount(region, source_profile).client(service)
        return (account if region == account.region else AwsAccount(region)).client(service)

    digest = copy_image(client, target.images, image, lambda line: print(line, file=sys.stderr))
    print(f"jobs use {choose(account.client, target.platform.name, target.images, digest, because)}")


@app.command()
def restore(platform_file: PlatformFile = DEFAULT_PLATFORM, image: ImageName = DEFAULT_IMAGE) -> None:
    """Make jobs use the image that the last deploy built, and end a promotion or a second build."""
    from trainway.delivery.images import choose

    found = _deployed(platform_file, image)
    images = found.images
    digest = images.built.pinned.rpartition("@")[2]
    if digest not in {each.digest for each in images.stored}:
        raise usage_error(
            f"{images.built.pinned} cannot be used",
            why="it is gone",
            fix="build it again with `trainway image build`, which makes jobs use it",
        )
    print(f"jobs use {choose(found.account.client, found.platform.name, images, digest, 'built last')}")


@app.command()
def lock(platform_file: PlatformArgument = DEFAULT_PLATFORM, image: ImageName = DEFAULT_IMAGE) -> None:
    """Write what `packages.pip` of an image needs, by version and checksum, to a file beside the platform file.

    It asks the package index. No package of the image changes that PyTorch depends on.
    """
    from trainway.delivery.package_lock import lock_packages
    from trainway.spec.loader import load_platform
    from trainway.spec.package_lock import package_lock_file

    platform = _of_image(load_platform(platform_file, locked=False), image)
    with working("resolving the packages"):
        written = lock_packages(platform, platform_file)
    file = package_lock_file(platform_file, image)
    file.write_text(written.text, encoding="utf-8")
    print(f"{file}: {', '.join(written.added) or 'the image has all of them'}")
    for change in written.changed:
        print(f"  instead of the image's {change}")


@app.command()
def additions(platform_file: PlatformArgument = DEFAULT_PLATFORM, image: ImageName = DEFAULT_IMAGE) -> None:
    """Copy what a platform in a closed network adds to an image to where delivery/supply.sh reads it."""
    import shutil

    from trainway.delivery.additions import write_additions
    from trainway.parts.checkout import CHECKOUT
    from trainway.spec.loader import load_platform

    platform, directory = _of_image(load_platform(platform_file), image), CHECKOUT / "additions"
    shutil.rmtree(directory, ignore_errors=True)
    write_additions(platform, directory)
    print(f"{directory} has them" if directory.exists() else f"{platform_file} adds nothing to the image")


def images_that_are_gone(platform_file: Path) -> list[str]:
    """Return the images that jobs use and that ECR does not have.

    Empty also if nothing is deployed, AWS refuses to show it, or AWS is an emulated one, which builds no images.
    """
    if os.environ.get("AWS_ENDPOINT_URL"):
        return []
    try:
        return [found.images.pinned for found in _all_built(platform_file) if not found.images.exists]
    except UsageError:
        return []


@dataclass(frozen=True)
class Found:
    """A deployed image: its platform as the image sees it, the platform's account, and what is in its repository."""

    platform: Platform
    account: AwsAccount
    images: PlatformImages

    @property
    def pipeline(self) -> str:
        """The name of the pipeline that builds the image."""
        return image_stack_name(self.platform.name, self.platform.image_name)


def _account(platform_file: Path, image: str) -> tuple[Platform, AwsAccount]:
    """Return a platform as its image sees it, and its account. Raises UsageError without credentials or image."""
    from trainway.diff.account import AwsAccount
    from trainway.spec.loader import load_platform

    platform = _of_image(load_platform(platform_file), image)
    return platform, AwsAccount(platform.region)


def _of_image(platform: Platform, image: str) -> Platform:
    if image not in platform.image_names:
        raise usage_error(
            f"there is no image {image}",
            why=f"the file of {platform.name} describes {', '.join(platform.image_names)}",
            fix="name one of them, or describe it below `images` and deploy",
        )
    return platform.of_image(image)


def _built(platform_file: Path, image: str) -> Found:
    """Return what `_deployed` does. Raises UsageError also for an image of the user's, which no pipeline builds."""
    found = _deployed(platform_file, image)
    if found.images.is_users:
        from trainway.spec.image.image_build import key_of_image

        key = key_of_image(found.platform)
        why = f"jobs use {found.images.pinned}, which {key}.uri names"
        fix = f"name another image there, or remove {key}.uri, and deploy"
        raise usage_error(f"{found.platform.name} builds no image", why=why, fix=fix)
    return found


def _all_built(platform_file: Path) -> list[Found]:
    """Return the images of a platform that pipelines build."""
    names = _account(platform_file, DEFAULT_IMAGE)[0].image_names
    return [found for found in (_deployed(platform_file, name) for name in names) if not found.images.is_users]


def _deployed(platform_file: Path, image: str) -> Found:
    """Return a deployed image. Raises UsageError without credentials or image, or if it is not deployed."""
    from trainway.delivery.images import not_deployed

    found = _found(platform_file, image)
    if found is None:
        raise not_deployed(_account(platform_file, image)[0].name, image)
    return found


def _found(platform_file: Path, image: str) -> Found | None:
    """Return an image, or None if it is not deployed. Raises UsageError without credentials or image."""
    from trainway.delivery.images import images_of

    platform, account = _account(platform_file, image)
    images = images_of(account.client, platform.name, image)
    return Found(platform, account, images) if images else None


def _run(found: Found, variables: dict[str, str]) -> None:
    from trainway.delivery.pipeline_run import follow, start

    client = found.account.client
    run = start(client, found.pipeline, variables)
    print(f"{found.pipeline} runs: {run}", file=sys.stderr)
    follow(client, found.pipeline, run, lambda line: print(f"  {line}", file=sys.stderr))


def _use(found: Found, tag: str, because: str) -> None:
    from trainway.delivery.images import choose, digest_of

    client = found.account.client
    digest = digest_of(client, found.images, tag)
    print(f"jobs use {choose(client, found.platform.name, found.images, digest, because)}")
