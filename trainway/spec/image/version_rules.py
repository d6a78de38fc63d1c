"""The rules of the versions that the training image can be built from: which releases go together.

A rule yields (key path, reason, remedy) as those of the platform file do. `VERSION_RULES` is the whole list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from trainway.spec.facts.versions import Versioned, Versions, combination_named, images_of, release, requirements_of
from trainway.spec.image.compatibility import is_older
from trainway.spec.image.fabric_rules import FABRIC_RULES
from trainway.spec.problems import KeyPath

Breach = tuple[KeyPath, str, str]


def the_default_is_a_combination(versions: Versions) -> Iterator[Breach]:
    """A platform file that names no combination gets one that is there, and so does one that names a channel."""
    names = [each.name for each in versions.combinations]
    if combination_named(versions, versions.default) is None:
        yield ("default",), "there is no such combination", f"name one of {', '.join([*versions.channels, *names])}"
    for channel, name in versions.channels.items():
        if name not in names:
            yield ("channels", channel), "there is no such combination", f"name one of {', '.join(names)}"


def combinations_are_named_once(versions: Versions) -> Iterator[Breach]:
    """A name means one combination."""
    names = [each.name for each in versions.combinations]
    for index, name in enumerate(names):
        if name in (*versions.channels, *names[:index]):
            yield ("combinations", index, "name"), "the name stands twice", "give each combination a name of its own"


def releases_are_listed(versions: Versions) -> Iterator[Breach]:
    """What a combination or an installer names has an entry, with its checksum and its source."""
    for index, each in enumerate(versions.combinations):
        known = {
            "pytorch": [wheel.version for wheel in versions.pytorch],
            "efa_installer": [installer.version for installer in versions.efa_installers],
            "nccl": [wheel.version for wheel in versions.nccl],
            "nccl_tests": [tests.version for tests in versions.nccl_tests],
            "gdrcopy": [library.version for library in versions.gdrcopy],
            "images": [images.name for images in versions.images],
            "transformer_engine": [engine.version for engine in versions.transformer_engine],
            "nemo": [nemo.version for nemo in versions.nemo],
            "flash_attention": [attention.version for attention in versions.flash_attention],
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


def pytorch_runs_on_the_base(versions: Versions) -> Iterator[Breach]:
    """The base image has the Python that the wheel was built for."""
    for index, each in enumerate(versions.combinations):
        wheel, images = release(versions.pytorch, each.pytorch), images_of(versions, each)
        if wheel and images and wheel.python != images.python:
            reason = f"PyTorch {wheel.version} was built for Python {wheel.python}, and the base has {images.python}"
            yield ("combinations", index, "images"), reason, f"name a base with Python {wheel.python}"


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
            if add_on and is_older(each.pytorch, add_on.pytorch_from):
                reason = f"{name} {add_on.version} requires PyTorch {add_on.pytorch_from} or newer"
                yield ("combinations", index, key), reason, "name one for this PyTorch, or a newer PyTorch"


def the_agent_takes_the_pytorch(versions: Versions) -> Iterator[Breach]:
    """HyperPod's elastic agent is in a combination whose PyTorch its metadata allows."""
    for index, each in enumerate(versions.combinations):
        agent = release(versions.hyperpod_elastic_agent, each.hyperpod_elastic_agent or "")
        if agent is None:
            continue
        if is_older(each.pytorch, agent.pytorch_from) or not is_older(each.pytorch, agent.pytorch_before):
            allowed = f"{agent.pytorch_from} or newer, and older than {agent.pytorch_before}"
            reason = f"HyperPod's elastic agent {agent.version} requires PyTorch {allowed}"
            yield ("combinations", index, "hyperpod_elastic_agent"), reason, "remove the key, or name another PyTorch"


def nemo_takes_the_transformer_engine(versions: Versions) -> Iterator[Breach]:
    """Transformer Engine is as new as NeMo requires, because one image can have both."""
    for index, each in enumerate(versions.combinations):
        nemo = release(versions.nemo, each.nemo)
        if nemo and is_older(each.transformer_engine, nemo.transformer_engine_from):
            reason = f"NeMo {nemo.version} requires Transformer Engine {nemo.transformer_engine_from} or newer"
            yield ("combinations", index, "nemo"), reason, "name another NeMo, or a newer Transformer Engine"


def requirements_are_listed(versions: Versions, listed: Collection[str]) -> Iterator[Breach]:
    """What a release requires is in one of the files that are listed: without it, the image's build would end late."""
    releases: dict[str, Iterable[Versioned]] = {
        "pytorch": versions.pytorch,
        "transformer_engine": versions.transformer_engine,
        "nemo": versions.nemo,
        "flash_attention": versions.flash_attention,
        "hyperpod_elastic_agent": versions.hyperpod_elastic_agent,
    }
    for key, entries in releases.items():
        for index, each in enumerate(entries):
            if requirements_of(key.replace("_", "-"), each.version) not in listed:
                yield (key, index, "version"), "container/requirements has no list for it", "`make lock` writes it"
    for index, wheel in enumerate(versions.pytorch):
        if requirements_of("cuda-toolkit", wheel.cuda_toolkit) not in listed:
            yield (
                ("pytorch", index, "cuda_toolkit"),
                "container/requirements has no list for it",
                "`make lock` writes it",
            )


VERSION_RULES: Final[tuple[Callable[[Versions], Iterator[Breach]], ...]] = (
    the_default_is_a_combination,
    combinations_are_named_once,
    releases_are_listed,
    pytorch_runs_on_the_base,
    transformer_engine_is_for_pytorchs_cuda,
    add_ons_take_the_pytorch,
    nemo_takes_the_transformer_engine,
    the_agent_takes_the_pytorch,
    *FABRIC_RULES,
)


def _or(names: Iterable[str]) -> str:
    return " or ".join(names)
