"""The order of the directories in LD_LIBRARY_PATH."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainway.image_doctor.checks.installer import installer_versions
from trainway.image_doctor.rules import ImageFinding, finding
from trainway.image_doctor.subject import Subject, library_path

_EFA: Final = "/opt/amazon/efa/lib"
_COMPAT: Final = "/usr/local/cuda/compat"
_OLD_FOLDER: Final = re.compile(r"/opt/amazon/(aws-)?ofi-nccl/lib/\w+-linux-gnu")
# The changelog of the installer: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-changelog.html
_MOVED_IN: Final = (1, 44)


def directories_in_order(subject: Subject) -> Iterator[ImageFinding]:
    """Yield a finding for a path without EFA's libraries, and for directories that come before them."""
    directories = library_path(subject)
    variable = subject.variables.get("LD_LIBRARY_PATH")
    where = variable.where if variable else subject.name
    if (run := subject.installs_efa) and subject.files is None and not _has(directories, _EFA):
        what = f"the EFA installer runs, and LD_LIBRARY_PATH has no {_EFA}"
        yield finding("efa-is-not-on-the-path", where if variable else run.where_of("efa_installer"), what)
    for each in directories:
        if each.startswith(_COMPAT):
            yield finding("older-cuda-libraries-first", where, f"LD_LIBRARY_PATH has {each}")
        if _OLD_FOLDER.fullmatch(each) and any(version >= _MOVED_IN for version in installer_versions(subject)):
            yield finding("plugin-folder-moved", where, f"LD_LIBRARY_PATH has {each}")
    ours = next((index for index, each in enumerate(directories) if "ofi-nccl" in each), len(directories))
    for each in directories[:ours]:
        if "hpcx" in each and "plugin" in each:
            yield finding("hpcx-plugin-is-first", where, f"{each} is before the directory of AWS's plugin")


def _has(directories: list[str], wanted: str) -> bool:
    # `lib64` is the name on Amazon Linux, and a variable without a value can have anything.
    return any(each in (wanted, f"{wanted}64") or "$EFA" in each or "${EFA" in each for each in directories)
