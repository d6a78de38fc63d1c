"""The versions that the training image can be built from, and which of them go together: container/versions.yaml.

A rule yields (key path, reason, remedy) as those of the platform file do; `VERSION_RULES` is the whole list.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Final, Protocol, TypeVar

from pydantic import Field

from trainway.spec.facts import read_facts
from trainway.spec.fields import Matches, Section
from trainway.spec.problems import KeyPath

VERSIONS_FILE: Final = Path(__file__).resolve().parents[2] / "container" / "versions.yaml"
# What PyTorch and add-ons require, in a file a release, named as `requirements_of` says.
REQUIREMENTS: Final = VERSIONS_FILE.parent / "requirements"

PinnedImage = Annotated[
    str,
    Matches(
        r"[a-z0-9][a-z0-9.:/_-]*:[\w][\w.-]*@sha256:[0-9a-f]{64}",
        "it is not pinned: a tag alone can mean another image tomorrow",
        "write it as in registry/name:tag@sha256:…, with the 64 digits that `docker buildx imagetools inspect` shows",
    ),
]
Checksum = Annotated[
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
    """What somebody publishes: `source` says it, or is where it would be said, and then `read_in` was read instead."""

    source: str = Field(description="The page of the publisher that states these values.")
    read: date = Field(description="The day it was read.")
    read_in: str | None = Field(None, description="What was read instead, where that page could not be.")


class Images(Published):
    """What the variants begin with, and what compiles for the variant cuda."""

    name: str = Field(description="How combinations call them.")
    cuda: PinnedImage = Field(description="The base of the variant cuda.")
    cuda_devel: PinnedImage = Field(description="The CUDA toolkit for the same system.")
    cpu: PinnedImage = Field(description="The base of the variant cpu.")
    cuda_version: str = Field(description="Major and minor version of CUDA, in quotes.")
    python: str = Field(description="Major and minor version of its Python, in quotes.")


class EfaInstaller(Published):
    """An EFA installer, and the versions that it installs."""

    version: str = Field(description="The installer's version.")
    url: Address = Field(description="Where it is downloaded.")
    sha256: Checksum = Field(description="The checksum of the file there.")
    libfabric: str = Field(description="The libfabric that it carries.")
    aws_ofi_nccl: str = Field(description="The plugin for NCCL that it carries.")


class Plugin(Published):
    """An aws-ofi-nccl, and what it was released as tested with."""

    version: str = Field(description="The plugin's version.")
    tested_with_libfabric: tuple[str, ...] = Field(min_length=1, description="Versions of libfabric.")
    tested_with_nccl: tuple[str, ...] = Field(min_length=1, description="Versions of NCCL.")


class PyTorch(Published):
    """A wheel of PyTorch for Linux, and what it requires."""

    version: str = Field(description="PyTorch's version.")
    sha256: Checksum = Field(description="The checksum of the wheel.")
    python: str = Field(description="The version of Python that the wheel is for, in quotes.")
    cuda: str = Field(description="Major and minor version of the CUDA that it was built with, in quotes.")
    nccl: str = Field(description="The NCCL that it requires.")


class NcclTests(Published):
    """The sources of NCCL's own tests."""

    version: str = Field(description="Their version.")
    url: Address = Field(description="Where they are downloaded.")
    sha256: Checksum = Field(description="The checksum of the file there.")


class TransformerEngine(Published):
    """Transformer Engine: its package, its core for a major version of CUDA, and its part for PyTorch as sources."""

    version: str = Field(description="The version of all three.")
    sha256: Checksum = Field(description="The checksum of the package's wheel.")
    core_sha256: Checksum = Field(description="The checksum of the core's wheel.")
    torch_sha256: Checksum = Field(description="The checksum of the archive of sources.")
    cuda: str = Field(description="The major version of CUDA that the core was built with, in quotes.")
    pytorch_from: Version = Field(description="The oldest PyTorch that its metadata allows.")


class Nemo(Published):
    """NeMo AutoModel, by its metadata; its checksum is with those of what it requires."""

    version: str = Field(description="Its version.")
    pytorch_from: Version = Field(description="The oldest PyTorch that it allows.")
    transformer_engine_from: Version = Field(description="The oldest Transformer Engine, where one is there.")


class HyperPodElasticAgent(Published):
    """HyperPod's elastic agent, by its metadata; its checksum is with those of what it requires."""

    version: str = Field(description="Its version.")
    pytorch_from: Version = Field(description="The oldest PyTorch that it allows.")
    pytorch_before: Version = Field(description="The oldest PyTorch that is too new for it.")


class Combination(Section):
    """Releases that go together, each by its version."""

    name: str = Field(description="How `image.versions` calls it.")
    pytorch: str = Field(description="A version below `pytorch`.")
    efa_installer: str = Field(description="A version below `efa_installers`.")
    nccl_tests: str = Field(description="A version below `nccl_tests`.")
    images: str = Field(description="A name below `images`.")
    transformer_engine: str = Field(description="A version below `transformer_engine`.")
    nemo: str = Field(description="A version below `nemo`.")
    hyperpod_elastic_agent: str | None = Field(
        None,
        description="A version below `hyperpod_elastic_agent`. Without it, the agent does not support the PyTorch.",
    )


class Versions(Section):
    """The file."""

    default: str = Field(description="The combination of a platform file that names none.")
    combinations: tuple[Combination, ...] = Field(min_length=1, description="The choices of `image.versions`.")
    images: tuple[Images, ...] = Field(description="Base images.")
    efa_installers: tuple[EfaInstaller, ...] = Field(description="EFA installers.")
    aws_ofi_nccl: tuple[Plugin, ...] = Field(description="Plugins, of which the installers carry one each.")
    pytorch: tuple[PyTorch, ...] = Field(description="Wheels of PyTorch.")
    nccl_tests: tuple[NcclTests, ...] = Field(description="NCCL's tests.")
    transformer_engine: tuple[TransformerEngine, ...] = Field(description="Transformer Engines.")
    nemo: tuple[Nemo, ...] = Field(description="NeMo AutoModels.")
    hyperpod_elastic_agent: tuple[HyperPodElasticAgent, ...] = Field(description="HyperPod's elastic agents.")


class _Versioned(Protocol):
    @property
    def version(self) -> str: ...


Release = TypeVar("Release", bound=_Versioned)
Breach = tuple[KeyPath, str, str]


def release(among: Iterable[Release], version: str) -> Release | None:
    """The release of a version, or None where there is none."""
    return next((each for each in among if each.version == version), None)


def images_of(versions: Versions, combination: Combination) -> Images | None:
    """The images that a combination names, or None where there are none of the name."""
    return next((each for each in versions.images if each.name == combination.images), None)


@functools.cache
def combination_names() -> tuple[str, ...]:
    """The names that `image.versions` can have, as the file has them, right or wrong."""
    return tuple(each["name"] for each in read_facts(VERSIONS_FILE)["combinations"])


@functools.cache
def combinations_with_the_agent() -> tuple[str, ...]:
    """The names of the combinations that have HyperPod's elastic agent, in the order of the file."""
    combinations = read_facts(VERSIONS_FILE)["combinations"]
    return tuple(each["name"] for each in combinations if each.get("hyperpod_elastic_agent"))


def the_default_is_a_combination(versions: Versions) -> Iterator[Breach]:
    """A platform file that names no combination gets one that is there."""
    names = [each.name for each in versions.combinations]
    if versions.default not in names:
        yield ("default",), "there is no such combination", f"name one of {', '.join(names)}"


def combinations_are_named_once(versions: Versions) -> Iterator[Breach]:
    """A name means one combination."""
    names = [each.name for each in versions.combinations]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield ("combinations", index, "name"), "the name stands twice", "give each combination a name of its own"


def releases_are_listed(versions: Versions) -> Iterator[Breach]:
    """What a combination or an installer names has an entry, with its checksum and its source."""
    for index, each in enumerate(versions.combinations):
        known = {
            "pytorch": [wheel.version for wheel in versions.pytorch],
            "efa_installer": [installer.version for installer in versions.efa_installers],
            "nccl_tests": [tests.version for tests in versions.nccl_tests],
            "images": [images.name for images in versions.images],
            "transformer_engine": [engine.version for engine in versions.transformer_engine],
            "nemo": [nemo.version for nemo in versions.nemo],
            "hyperpod_elastic_agent": [agent.version for agent in versions.hyperpod_elastic_agent],
        }
        for key, names in known.items():
            if getattr(each, key) not in (*names, None):
                yield ("combinations", index, key), "nothing is known of it", f"add its entry, or name {_or(names)}"
    plugins = [plugin.version for plugin in versions.aws_ofi_nccl]
    for index, installer in enumerate(versions.efa_installers):
        if installer.aws_ofi_nccl not in plugins:
            reason = "nothing is known of that plugin"
            yield ("efa_installers", index, "aws_ofi_nccl"), reason, "add what its release notes say it was tested with"


def the_plugin_was_tested_with_its_libfabric(versions: Versions) -> Iterator[Breach]:
    """An installer carries a plugin and a libfabric that were released to go together."""
    for index, installer in enumerate(versions.efa_installers):
        plugin = release(versions.aws_ofi_nccl, installer.aws_ofi_nccl)
        if plugin and installer.libfabric not in plugin.tested_with_libfabric:
            reason = f"aws-ofi-nccl {plugin.version} was released as tested with {_or(plugin.tested_with_libfabric)}"
            yield ("efa_installers", index, "libfabric"), reason, "write what the installer carries, by AWS's changelog"


def the_plugin_was_tested_with_the_nccl(versions: Versions) -> Iterator[Breach]:
    """The NCCL that PyTorch requires is one that the installer's plugin was tested with."""
    for index, each in enumerate(versions.combinations):
        wheel = release(versions.pytorch, each.pytorch)
        installer = release(versions.efa_installers, each.efa_installer)
        plugin = installer and release(versions.aws_ofi_nccl, installer.aws_ofi_nccl)
        if wheel and plugin and wheel.nccl not in plugin.tested_with_nccl:
            reason = (
                f"PyTorch {wheel.version} requires NCCL {wheel.nccl}, and aws-ofi-nccl {plugin.version}, which EFA "
                f"installer {each.efa_installer} carries, was tested with {_or(plugin.tested_with_nccl)}"
            )
            remedy = "name an installer and a PyTorch that were released to go together"
            yield ("combinations", index, "efa_installer"), reason, remedy


def pytorch_runs_on_the_images(versions: Versions) -> Iterator[Breach]:
    """The images have the CUDA and the Python that the wheel was built for."""
    for index, each in enumerate(versions.combinations):
        wheel, images = release(versions.pytorch, each.pytorch), images_of(versions, each)
        if not wheel or not images:
            continue
        pairs = {"CUDA": (wheel.cuda, images.cuda_version), "Python": (wheel.python, images.python)}
        for what, (built_for, there) in pairs.items():
            if built_for != there:
                reason = f"PyTorch {wheel.version} was built for {what} {built_for}, and they have {there}"
                yield ("combinations", index, "images"), reason, f"name images with {what} {built_for}"


def transformer_engine_is_for_pytorchs_cuda(versions: Versions) -> Iterator[Breach]:
    """The core of Transformer Engine was built for the major version of CUDA that PyTorch was."""
    for index, each in enumerate(versions.combinations):
        wheel = release(versions.pytorch, each.pytorch)
        engine = release(versions.transformer_engine, each.transformer_engine)
        if wheel and engine and wheel.cuda.partition(".")[0] != engine.cuda:
            reason = f"its core was built for CUDA {engine.cuda}, and PyTorch {wheel.version} for CUDA {wheel.cuda}"
            yield ("combinations", index, "transformer_engine"), reason, "name one that was built for the same"


def add_ons_take_the_pytorch(versions: Versions) -> Iterator[Breach]:
    """PyTorch is as new as Transformer Engine and NeMo require."""
    for index, each in enumerate(versions.combinations):
        engine, nemo = release(versions.transformer_engine, each.transformer_engine), release(versions.nemo, each.nemo)
        for key, name, add_on in (("transformer_engine", "Transformer Engine", engine), ("nemo", "NeMo", nemo)):
            if add_on and _older(each.pytorch, add_on.pytorch_from):
                reason = f"{name} {add_on.version} requires PyTorch {add_on.pytorch_from} or newer"
                yield ("combinations", index, key), reason, "name one for this PyTorch, or a newer PyTorch"


def the_agent_takes_the_pytorch(versions: Versions) -> Iterator[Breach]:
    """HyperPod's elastic agent is in a combination whose PyTorch its metadata allows."""
    for index, each in enumerate(versions.combinations):
        agent = release(versions.hyperpod_elastic_agent, each.hyperpod_elastic_agent or "")
        if agent is None:
            continue
        if _older(each.pytorch, agent.pytorch_from) or not _older(each.pytorch, agent.pytorch_before):
            allowed = f"{agent.pytorch_from} or newer, and older than {agent.pytorch_before}"
            reason = f"HyperPod's elastic agent {agent.version} requires PyTorch {allowed}"
            yield ("combinations", index, "hyperpod_elastic_agent"), reason, "remove the key, or name another PyTorch"


def nemo_takes_the_transformer_engine(versions: Versions) -> Iterator[Breach]:
    """Transformer Engine is as new as NeMo requires, because one image can have both."""
    for index, each in enumerate(versions.combinations):
        nemo = release(versions.nemo, each.nemo)
        if nemo and _older(each.transformer_engine, nemo.transformer_engine_from):
            reason = f"NeMo {nemo.version} requires Transformer Engine {nemo.transformer_engine_from} or newer"
            yield ("combinations", index, "nemo"), reason, "name another NeMo, or a newer Transformer Engine"


def requirements_of(what: str, version: str) -> str:
    """The name of the file with what a release requires, of PyTorch or of an add-on."""
    return f"{what}-{version}.txt"


def requirements_are_listed(versions: Versions, listed: Collection[str]) -> Iterator[Breach]:
    """What a release requires is in one of the files that are listed: without it, the image's build would end late."""
    releases: dict[str, Iterable[_Versioned]] = {
        "pytorch": versions.pytorch,
        "transformer_engine": versions.transformer_engine,
        "nemo": versions.nemo,
        "hyperpod_elastic_agent": versions.hyperpod_elastic_agent,
    }
    for key, entries in releases.items():
        for index, each in enumerate(entries):
            if requirements_of(key.replace("_", "-"), each.version) not in listed:
                yield (key, index, "version"), "container/requirements has no list for it", "`make lock` writes it"


VERSION_RULES: Final[tuple[Callable[[Versions], Iterator[Breach]], ...]] = (
    the_default_is_a_combination,
    combinations_are_named_once,
    releases_are_listed,
    the_plugin_was_tested_with_its_libfabric,
    the_plugin_was_tested_with_the_nccl,
    pytorch_runs_on_the_images,
    transformer_engine_is_for_pytorchs_cuda,
    add_ons_take_the_pytorch,
    nemo_takes_the_transformer_engine,
    the_agent_takes_the_pytorch,
)


def _older(version: str, than: str) -> bool:
    """By their numbers, which is enough for releases."""
    one, other = (tuple(map(int, re.findall(r"\d+", each))) for each in (version, than))
    return one < other


def _or(names: Iterable[str]) -> str:
    return " or ".join(names)
