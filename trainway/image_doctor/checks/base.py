"""What the image is built on: a version of it, and the plugins and HPC-X of NVIDIA's images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainway.image_doctor.rules import ImageFinding, finding
from trainway.image_doctor.subject import Subject, library_path

_WHOLE: Final = r"(/opt/hpcx/?(?=[\s*]|$)|\$\{?HPCX_(DIR|HOME)\b\}?/?(?=[\s*]|$))"
_REMOVES_WHOLE: Final = rf"rm +(-\w+ +)*[^&;|\n]*{_WHOLE}"
_REMOVES_HPCX: Final = rf"rm +(-\w+ +)*[^&;|\n]*({_WHOLE}|/opt/hpcx/|\$\{{?HPCX_)"
# https://github.com/awslabs/awsome-distributed-ai (read 2026-12-01): 0.nvcr-pytorch-aws.dockerfile, which keeps what is
# not MPI, and 3.test_cases/megatron/megatron-bridge/Dockerfile, which keeps MPI, too.
_NEEDS_UCX: Final = (23, 9)
_NEEDS_MPI: Final = (26, 4)
_REMOVES_MPI: Final = r"rm +(-\w+ +)*[^&;|\n]*(/usr/local/mpi|/opt/hpcx/ompi|/opt/hpcx(?=[\s*]|$))"
_OURS: Final = re.compile(r"/opt/amazon/(aws-)?ofi-nccl/lib\S*|/opt/amazon/efa/lib\S*|\S*aws-ofi-nccl\S*")


def base_has_a_version(subject: Subject) -> Iterator[ImageFinding]:
    """Yield a finding for each image after FROM that has no tag and no digest, or the tag `latest`."""
    for base in subject.bases:
        name = base.image.rpartition("/")[2]
        # `scratch` is no image, and a name in a variable without a value is not known.
        if base.image == "scratch" or "$" in base.image or "@" in name:
            continue
        if ":" not in name or name.endswith(":latest"):
            yield finding("base-has-no-version", base.where, f"the base {base.image} has no version")


def ours_before_nvidias(subject: Subject) -> Iterator[ImageFinding]:
    """Yield a finding for an image of NVIDIA's that gets EFA, and in which NVIDIA's plugin stays first."""
    if not subject.is_ngc or not (subject.installs_efa or subject.names_plugin):
        return
    removed = any(re.search(_REMOVES_HPCX, step.text) for step in subject.runs)
    directories = [each for each in library_path(subject) if "hpcx" in each or _OURS.fullmatch(each)]
    first = bool(directories) and bool(_OURS.fullmatch(directories[0]))
    if removed or (first and subject.value("NCCL_NET_PLUGIN") is not None):
        return
    where = subject.bases[0].where if subject.bases else subject.name
    named = subject.bases[0].image if subject.bases else "the base"
    if first:
        yield finding("plugin-is-not-chosen", where, f"{named} can have another plugin, and NCCL_NET_PLUGIN is unset")
    else:
        what = f"{named} has plugins of NVIDIA, and AWS's is not before them in LD_LIBRARY_PATH"
        yield finding("nvidias-plugin-is-first", where, what)


def hpcx_stays(subject: Subject) -> Iterator[ImageFinding]:
    """Yield a finding for a new image of NVIDIA's whose HPC-X is removed, and for Open MPI that looks for its parts."""
    for step in subject.runs:
        where, release = step.where_of("hpcx|HPCX"), _release(subject) or (0, 0)
        what = f"HPC-X of an image of {release[0]}.{release[1]:02} is removed"
        if release >= _NEEDS_MPI and re.search(_REMOVES_HPCX, step.text):
            yield finding("hpcx-is-removed", where, what)
        elif release >= _NEEDS_UCX and re.search(_REMOVES_WHOLE, step.text):
            yield finding("hpcx-is-removed-whole", where, what)
        prefix = subject.value("OPAL_PREFIX")
        if re.search(_REMOVES_MPI, step.text) and (prefix is None or "hpcx" in prefix):
            what = f"an Open MPI is removed, and OPAL_PREFIX is {prefix or 'left as the base has it'}"
            yield finding("openmpi-looks-elsewhere", step.where_of("rm "), what)
    variable, programs = subject.variables.get("OPAL_PREFIX"), (subject.value("PATH") or "").split(":")
    if variable and "hpcx" in variable.value and "/opt/amazon/openmpi/bin" in programs:
        what = f"OPAL_PREFIX={variable.value}, and PATH has the mpirun of /opt/amazon/openmpi"
        yield finding("openmpi-looks-elsewhere", variable.where, what)


def _release(subject: Subject) -> tuple[int, int] | None:
    """Return the year and the month of one of NVIDIA's images, by its tag or by its variables."""
    words = [base.image.rpartition(":")[2] for base in subject.bases[:1]]
    words += [value for name in ("NVIDIA_PYTORCH_VERSION", "NVIDIA_NEMO_VERSION") if (value := subject.value(name))]
    found = next(filter(None, (re.match(r"(\d{2})\.(\d{2})\b", word) for word in words)), None)
    return (int(found[1]), int(found[2])) if found and subject.is_ngc else None
