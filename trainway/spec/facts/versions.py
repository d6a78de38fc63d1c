"""The versions that the training image can be built from, and which of them go together: versions.yaml."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import date
from typing import Annotated, Final, Protocol, TypeVar

from pydantic import Field

from trainway.spec.facts.files import FACTS, read_facts
from trainway.spec.values import Matches, Section

VERSIONS_FILE: Final = FACTS / "versions.yaml"

PINNED_IMAGE: Final = Matches(
    r"[a-z0-9][a-z0-9.:/_-]*:[\w][\w.-]*@sha256:[0-9a-f]{64}",
    "it is not pinned: a tag alone can mean another image tomorrow",
    "write it as in registry/name:tag@sha256:…, with the 64 digits that `docker buildx imagetools inspect` shows",
)
PinnedImage = Annotated[str, PINNED_IMAGE]
Sha256 = Annotated[
    str,
    Matches(
        r"[0-9a-f]{64}",
        "it is not a SHA-256 checksum",
        "write its 64 lower-case hexadecimal digits, as sha256sum prints them",
    ),
]
Version = Annotated[
    str,
    Matches(r"\d+(\.\d+)*", "it is not the version of a release", "write numbers with dots, in quotes if they are two"),
]
Address = Annotated[str, Matches(r"https?://\S+", "it is not an address", "write the https:// address of the file")]


class Published(Section):
    """Facts that a publisher states on the page `source`, or in `read_in` if the page cannot be opened."""

    source: str = Field(description="The page of the publisher that states these values.")
    read: date = Field(description="The day it was read.")
    read_in: str | None = Field(None, description="What was read instead, where that page could not be.")


class Images(Published):
    """The base image of the variants cuda and cpu."""

    name: str = Field(description="How combinations call it.")
    base: PinnedImage = Field(description="The image.")
    python: str = Field(description="Major and minor version of its Python, in quotes.")
    packages: date = Field(
        description="The day of the Ubuntu snapshot that packages come from, and to which those of the image are "
        "upgraded: a day on which the image existed."
    )


class EfaInstaller(Published):
    """A release of the EFA installer, and the versions that it installs."""

    version: str = Field(description="The installer's version.")
    url: Address = Field(description="Where it is downloaded.")
    sha256: Sha256 | None = Field(
        description="The checksum of the file there, or null if no public source states it. No combination can name it "
        "then."
    )
    libfabric: str = Field(description="The libfabric that it carries.")
    aws_ofi_nccl: str = Field(description="The plugin for NCCL that it carries.")


class Gin(Section):
    """What GPU-initiated networking of NCCL (GIN), which DeepEP uses, requires beside a plugin that has it."""

    nccl_from: Version = Field(description="The oldest NCCL.")
    gdrcopy_from: Version = Field(description="The oldest GDRCopy, in quotes if it is two numbers.")
    gda_libfabric_from: Version = Field(description="The oldest libfabric for its backend in the GPU's kernels.")


class Plugin(Published):
    """A release of aws-ofi-nccl, the versions that it was tested with, and those that it is called compatible with."""

    version: str = Field(description="The plugin's version.")
    tested_with_libfabric: tuple[str, ...] = Field(description="Versions of libfabric; none if no notes name one.")
    tested_with_nccl: tuple[str, ...] = Field(description="Versions of NCCL; none if no notes name one.")
    libfabric_from: Version | None = Field(description="The oldest libfabric that is called compatible, or null.")
    nccl_from: Version | None = Field(description="The oldest NCCL that is called compatible, or null.")
    gin: Gin | None = Field(description="What GIN requires, or null if the plugin is not documented for it.")


class NcclWheel(Published):
    """A wheel of NCCL for CUDA 13, in place of the one that PyTorch requires."""

    version: str = Field(description="NCCL's version.")
    sha256: Sha256 = Field(description="The checksum of the wheel.")


class PyTorch(Published):
    """A wheel of PyTorch for Linux, and what it requires."""

    version: str = Field(description="PyTorch's version.")
    sha256: Sha256 = Field(description="The checksum of the wheel.")
    python: str = Field(description="The version of Python that the wheel is for, in quotes.")
    cuda_toolkit: Version = Field(description="The package cuda-toolkit that it requires.")
    nccl: str = Field(description="The NCCL that it requires.")

    @property
    def cuda(self) -> str:
        """Major and minor version of the CUDA that it was built with."""
        return ".".join(self.cuda_toolkit.split(".")[:2])


class NcclTests(Published):
    """The pinned sources of NCCL's own tests."""

    version: str = Field(description="Their version.")
    url: Address = Field(description="Where they are downloaded.")
    sha256: Sha256 = Field(description="The checksum of the file there.")


class GdrCopy(Published):
    """The pinned sources of GDRCopy's library."""

    version: str = Field(description="Its version.")
    url: Address = Field(description="Where they are downloaded.")
    sha256: Sha256 = Field(description="The checksum of the file there.")


class TransformerEngine(Published):
    """Transformer Engine: its package, its core for a major version of CUDA, and its part for PyTorch as sources."""

    version: str = Field(description="The version of all three.")
    sha256: Sha256 = Field(description="The checksum of the package's wheel.")
    core_sha256: Sha256 = Field(description="The checksum of the core's wheel.")
    torch_sha256: Sha256 = Field(description="The checksum of the archive of sources.")
    cuda: str = Field(description="The major version of CUDA that the core was built with, in quotes.")
    pytorch_from: Version = Field(description="The oldest PyTorch that its metadata allows.")


class Nemo(Published):
    """A release of NeMo AutoModel, by its metadata. Its checksum is among those of its dependencies."""

    version: str = Field(description="Its version.")
    pytorch_from: Version = Field(description="The oldest PyTorch that it allows.")
    transformer_engine_from: Version = Field(description="The oldest Transformer Engine, where one is there.")


class FlashAttention(Published):
    """A release of FlashAttention 4, which allows any PyTorch. Its checksum is among those of its dependencies."""

    version: str = Field(description="Its version.")


class HyperPodElasticAgent(Published):
    """HyperPod's elastic agent, by its metadata; its checksum is with those of what it requires."""

    version: str = Field(description="Its version.")
    pytorch_from: Version = Field(description="The oldest PyTorch that it allows.")
    pytorch_before: Version = Field(description="The oldest PyTorch that is too new for it.")


class Combination(Section):
    """A combination of releases that work together, each named by its version."""

    name: str = Field(description="How `image.versions` calls it.")
    pytorch: str = Field(description="A version below `pytorch`.")
    nccl: str | None = Field(
        None, description="A version below `nccl`, in place of the NCCL that PyTorch requires. Default: PyTorch's own."
    )
    efa_installer: str = Field(description="A version below `efa_installers`.")
    nccl_tests: str = Field(description="A version below `nccl_tests`.")
    gdrcopy: str = Field(description="A version below `gdrcopy`.")
    images: str = Field(description="A name below `images`, which is the base image.")
    transformer_engine: str = Field(description="A version below `transformer_engine`.")
    nemo: str = Field(description="A version below `nemo`.")
    flash_attention: str = Field(description="A version below `flash_attention`.")
    hyperpod_elastic_agent: str | None = Field(
        None,
        description="A version below `hyperpod_elastic_agent`. Without it, the agent does not support the PyTorch.",
    )
    made: date = Field(description="The day it was put together.")
    evidence: str | None = Field(
        None, description="Who runs this NCCL with this plugin, if AWS only calls them compatible, and the day."
    )
    unknown: tuple[str, ...] = Field((), description="What nobody has verified of it, a sentence each.")


class Versions(Section):
    """The versions that the training image can be built from, from versions.yaml."""

    default: str = Field(description="The combination or the channel of a platform file that names none.")
    channels: dict[str, str] = Field(description="Names that move to newer combinations, with the combination of each.")
    combinations: tuple[Combination, ...] = Field(min_length=1, description="The choices of `image.versions`.")
    images: tuple[Images, ...] = Field(description="Base images.")
    efa_installers: tuple[EfaInstaller, ...] = Field(description="EFA installers.")
    aws_ofi_nccl: tuple[Plugin, ...] = Field(description="Plugins, of which the installers carry one each.")
    pytorch: tuple[PyTorch, ...] = Field(description="Wheels of PyTorch.")
    nccl: tuple[NcclWheel, ...] = Field((), description="NCCLs in place of PyTorch's own.")
    nccl_tests: tuple[NcclTests, ...] = Field(description="NCCL's tests.")
    gdrcopy: tuple[GdrCopy, ...] = Field(description="GDRCopy's libraries.")
    transformer_engine: tuple[TransformerEngine, ...] = Field(description="Transformer Engines.")
    nemo: tuple[Nemo, ...] = Field(description="NeMo AutoModels.")
    flash_attention: tuple[FlashAttention, ...] = Field(description="FlashAttentions.")
    hyperpod_elastic_agent: tuple[HyperPodElasticAgent, ...] = Field(description="HyperPod's elastic agents.")


class Versioned(Protocol):
    @property
    def version(self) -> str: ...


Release = TypeVar("Release", bound=Versioned)


def release(among: Iterable[Release], version: str) -> Release | None:
    """Return the release of a version, or None if there is none."""
    return next((each for each in among if each.version == version), None)


def combination_named(versions: Versions, name: str) -> Combination | None:
    """Return the combination of a name or of a channel, or None if there is none."""
    wanted = versions.channels.get(name, name)
    return next((each for each in versions.combinations if each.name == wanted), None)


def images_of(versions: Versions, combination: Combination) -> Images | None:
    """Return the base image of a combination, or None if the combination names an unknown one."""
    return next((each for each in versions.images if each.name == combination.images), None)


@functools.cache
def versions_facts() -> Versions:
    """Return the facts of versions.yaml, read once. VERSION_RULES have passed them where a platform file is loaded."""
    return Versions.model_validate(read_facts(VERSIONS_FILE))


@functools.cache
def combination_names() -> tuple[str, ...]:
    """Return the names for `image.versions` in the file, without checking the combinations and the channels."""
    facts = read_facts(VERSIONS_FILE)
    return (*facts["channels"], *(each["name"] for each in facts["combinations"]))


@functools.cache
def packages_of_combinations() -> dict[str, date]:
    """Return the day of the Ubuntu snapshot by the name of each combination, as far as the file has it."""
    facts = read_facts(VERSIONS_FILE)
    days = {each["name"]: each["packages"] for each in facts["images"] if isinstance(each.get("packages"), date)}
    found = {each["name"]: days[each["images"]] for each in facts["combinations"] if each.get("images") in days}
    return found | {channel: found[name] for channel, name in facts["channels"].items() if name in found}


@functools.cache
def combinations_with_the_agent() -> tuple[str, ...]:
    """Return the names of the combinations that have HyperPod's elastic agent, in the order of the file."""
    facts = read_facts(VERSIONS_FILE)
    found = [each["name"] for each in facts["combinations"] if each.get("hyperpod_elastic_agent")]
    return (*(channel for channel, name in facts["channels"].items() if name in found), *found)


def requirements_of(what: str, version: str) -> str:
    """Return the name of the file in container/requirements with what a release of PyTorch or an add-on requires."""
    return f"{what}-{version}.txt"
