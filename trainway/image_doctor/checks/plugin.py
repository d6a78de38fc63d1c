"""How AWS's plugin for NCCL, aws-ofi-nccl, is fetched and built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainway.image_doctor.rules import ImageFinding, finding
from trainway.image_doctor.subject import BuildStep, Subject
from trainway.spec.facts.kubernetes_versions import numbers

_SOURCE: Final = "github.com/aws/aws-ofi-nccl"
# What follows the plugin's name in an address, and what git is told to take.
_NAMED: Final = re.compile(
    r"ofi-nccl/(?:archive/(?:refs/tags/)?|releases/download/|tarball/)(v?[\w.-]+?)(?:\.tar\.gz|\.zip|/|\s|$)"
    r"|(?:--branch[ =]+|-b +|checkout +(?:-\S+ +)*|reset --hard +)(\S+)"
)
_TAG: Final = re.compile(r"v?(?P<version>\d+\.\d+\.\d+)(?P<suffix>-aws)?")
# Tags of https://github.com/aws/aws-ofi-nccl (read 2026-12-01): v1.13.2-aws and before, v1.14.0 and after.
_NO_SUFFIX_FROM: Final = (1, 14, 0)
_CONFIGURED: Final = re.compile(r"\./configure(?P<words>[^&;|\n]*)")
_OF_THE_PLUGIN: Final = ("--with-libfabric", "--enable-platform-aws", "--with-mpi")
_PREFIX: Final = "--with-libfabric=/opt/amazon/efa"


def plugin_is_built_for_efa(subject: Subject) -> Iterator[ImageFinding]:
    """Yield a finding for a plugin without a version, for a tag that does not exist, and for another libfabric."""
    in_sources = False
    for step in subject.steps:
        if step.word in ("RUN", "ADD") and _SOURCE in step.text:
            yield from _version(step)
        if step.word == "WORKDIR":
            in_sources = "ofi-nccl" in step.text
        if step.word == "RUN" and ("ofi-nccl" in step.text or in_sources):
            for found in _CONFIGURED.finditer(step.text):
                words = found["words"]
                is_the_plugins = (
                    "--with-libfabric" in words or "--enable-platform-aws" in words or "--with-mpi" in words
                )
                if is_the_plugins and _PREFIX not in words and "$" not in words:
                    where = step.where_of(r"\./configure")
                    yield finding(
                        "plugin-without-aws-libfabric", where, f"aws-ofi-nccl is configured without {_PREFIX}"
                    )


def _version(step: BuildStep) -> Iterator[ImageFinding]:
    where = step.where_of(re.escape(_SOURCE))
    after = step.text[step.text.index(_SOURCE) :]
    before = re.search(r"git clone([^&;|]*)$", step.text[: step.text.index(_SOURCE)])
    words = f"{before[1] if before else ''}{after}"
    named = next(filter(None, (found[1] or found[2] for found in _NAMED.finditer(words))), None)
    if named is None or named in ("main", "master"):
        yield finding("plugin-has-no-version", where, "aws-ofi-nccl is fetched without a version")
    elif (tag := _TAG.fullmatch(named)) and (numbers(tag["version"]) < _NO_SUFFIX_FROM) != bool(tag["suffix"]):
        yield finding("plugin-tag-does-not-exist", where, f"aws-ofi-nccl has no tag {named}")
