"""`image`: the training image."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from trainway.spec.facts.versions import PINNED_IMAGE
from trainway.spec.sections.fields import PORT, AccountNumber, KmsKey, Region, Secret
from trainway.spec.values import Matches, Section

ImageVariant = Literal["cuda", "neuron", "cpu"]
IndexAddress = Annotated[
    str,
    Matches(
        rf"https://[A-Za-z0-9.-]+({PORT})?(/[^\s@?#]*)?",
        "it is not an https:// address of a package index without a login",
        "write it as in https://nexus.example.com/repository/pypi/simple, and the login as pip_login",
    ),
]
# The image with the CUDA toolkit that a combination names for builds.
DEVEL = "devel"
BaseImage = Annotated[
    str,
    Matches(f"{DEVEL}|{PINNED_IMAGE.pattern}", PINNED_IMAGE.reason, f"{PINNED_IMAGE.remedy}, or write {DEVEL}"),
]
BasePackages = Literal["replaced", "kept"]
AddOn = Literal["transformer-engine", "nemo", "flash-attention"]
Severity = Literal["critical", "high", "medium", "low"]
# The worst one first.
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)


class ImageScan(Section):
    """Scans of the training image for known vulnerabilities."""

    severity: Severity | None = Field(
        "critical",
        description="Sends an email to observability.notify when a scan of the image finds a vulnerability of this "
        "severity or a worse one. null: no email.",
    )


# https://www.debian.org/doc/debian-policy/ch-controlfields.html#source and #version (read 2026-11-23)
AptPackage = Annotated[
    str,
    Matches(
        r"[a-z0-9][a-z0-9+.-]+(=[0-9][A-Za-z0-9.+:~-]*)?",
        "it is not the name of a package of the distribution",
        "write NAME or NAME=VERSION, for example libaio-dev",
    ),
]
_SPECIFIER = r" ?(===|==|~=|>=|<=|!=|<|>) ?[A-Za-z0-9][A-Za-z0-9.*+!_-]*"
# Names and versions of https://packaging.python.org/en/latest/specifications/dependency-specifiers/ (read 2026-11-23).
PipPackage = Annotated[
    str,
    Matches(
        rf"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._,-]+\])?({_SPECIFIER}(,{_SPECIFIER})*)?",
        "it is not a package of the index, and its versions",
        "write it as in einops==0.8.1. What has only an address belongs in a Dockerfile: image.dockerfile",
    ),
]


class Packages(Section):
    """Packages that are installed in the training image beside its own."""

    apt: tuple[AptPackage, ...] = Field(
        (),
        description="Packages of the distribution, for example [libaio-dev], or NAME=VERSION. They come from where the "
        "image's own do: from the snapshot of `refresh`, or as they are on the day of the build.",
    )
    pip: tuple[PipPackage, ...] = Field(
        (),
        description="Python packages, for example [einops==0.8.1]. `trainway image lock` writes all that they require, "
        "by version and checksum, to the file NAME.packages.lock beside the platform file.",
    )


class RegistryLogin(Section):
    """A user name and a password that builds read from Secrets Manager."""

    secret: Secret = Field(
        description='Secrets Manager secret whose value is {"username": "…", "password": "…"}. For nvcr.io, the user '
        "name is $oauthtoken and the password an NGC API key."
    )
    key: KmsKey | None = Field(
        None, description="The KMS key that encrypts the secret. Default: aws/secretsmanager, a key of AWS's own."
    )


class BuildSettings(Section):
    """Where builds of the image fetch packages."""

    pip_index: IndexAddress | None = Field(
        None,
        description="Package index in place of pypi.org, for example https://nexus.example.com/repository/pypi/simple.",
    )
    pip_login: RegistryLogin | None = Field(None, description="Login to `pip_index`. Default: none.")


class Replicate(Section):
    """Where copies of the image are."""

    regions: tuple[Region, ...] = Field(
        (), description="Regions, for example [us-east-1]. Default: the platform's own."
    )
    accounts: tuple[AccountNumber, ...] = Field(
        (), description="AWS accounts, in quotes. Each has the repository already. Default: the platform's own."
    )


class Image(Section):
    """A training image, built on deploy."""

    versions: str | None = Field(
        None,
        description="stable, current, or edge, which move to newer versions, or a combination of "
        "trainway/spec/facts/versions.yaml, for example pytorch-2.13. Default: stable.",
    )
    variant: ImageVariant | None = Field(
        None,
        description="What its jobs compute on: cuda, neuron or cpu. Default: what the node groups have; cuda where "
        "they have GPUs and Neuron devices.",
    )
    base: BaseImage | None = Field(
        None,
        description="What it begins with instead of the combination's base, pinned by its digest: an image of the same "
        "system. A Neuron image needs it: the Neuron SDK's image for PyTorch training. devel: the combination's base, "
        "and the CUDA toolkit, which has nvcc, in the image, to develop in it.",
    )
    refresh: date | None = Field(
        None,
        description="Takes every Ubuntu package, and upgrades those of the base image, from the Ubuntu archive of this "
        "day, at 00:00 UTC, for example 2026-11-20. A later day brings the security updates until then. Default: the "
        "day in versions.yaml; with `base`, the archive of the day of the build, without an upgrade.",
    )
    base_packages: BasePackages = Field(
        "replaced",
        description="replaced: the combination's PyTorch, EFA, and NCCL go into the image. kept: the Python "
        "packages and the NCCL of `base` stay as they are, for example those of NVIDIA's NeMo container, and the build "
        "adds EFA for GPUs and what else the job requires. A Neuron image always keeps its packages, and its EFA.",
    )
    base_login: RegistryLogin | None = Field(
        None,
        description="Login to the registry of the base: of `base`, or without it of public.ecr.aws. Default: none. ECR "
        "needs none, because builds use their role.",
    )
    add: tuple[AddOn, ...] = Field(
        (),
        description="What else is in a CUDA image, at the combination's versions: transformer-engine, compiled there; "
        "nemo, which is NeMo AutoModel; flash-attention, which is FlashAttention 4, for Hopper and Blackwell GPUs.",
    )
    packages: Packages = Field(
        default_factory=Packages, description="Packages that are added to the image. Default: none."
    )
    dockerfile: str | None = Field(
        None,
        description="Directory of a Dockerfile of yours, relative to the platform file. It begins with `ARG "
        "TRAINWAY_BASE` and `FROM ${TRAINWAY_BASE}`, which is the base of the image with its packages. "
        "Default: none.",
    )
    uri: str | None = Field(
        None,
        description="Image of yours in ECR by its digest, instead of one that the deploy builds, for example "
        "111122223333.dkr.ecr.us-west-2.amazonaws.com/jobs@sha256:…. Default: the deploy builds the image.",
    )
    keep: int = Field(20, ge=1, le=1000, description="Number of images that the registry keeps. Older images expire.")
    scan: ImageScan = Field(
        default_factory=ImageScan, description="Scans for known vulnerabilities, and who is told of findings."
    )
    build: BuildSettings = Field(BuildSettings(), description="Where builds fetch packages.")
    sign: bool | None = Field(
        None,
        description="true: ECR signs every image that a deploy builds, by a rule for its repository among the rules of "
        "the registry. false: the deploy removes that rule. Default: the deploy leaves the rules of the registry.",
    )
    replicate: Replicate | None = Field(
        None,
        description="Copies every image that a deploy builds to each of these Regions in each of these accounts. "
        "Default: no copies.",
    )
