"""The lock of a job's Python packages: `run.packages`, by version and checksum, for the Python that runs the job.

The lock has what that Python lacks, so PyTorch, NumPy, and what was compiled for them stay those of the image. It
stands beside the job file, as `NAME.PLATFORM.packages.lock` or `NAME.local.packages.lock`, and is committed with it.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from trainway.delivery.package_lock import additions, image_packages, kept_packages, named_packages, resolve_beside
from trainway.delivery.resolution import UnresolvedError, found_uv, pinned, resolve, text
from trainway.launch.program.program import LockedPackages, RequestedPackages
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.versions import images_of
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.image.image_build import combination_of, key_of_image, own_base
from trainway.spec.loader import load_versions
from trainway.spec.package_lock import package_lock_file
from trainway.spec.platform import Platform

HERE = "local"
_FACT = re.compile(r"^# (for|beside): (.*)$", re.MULTILINE)
_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
# The C library of the releases of Ubuntu: https://packages.ubuntu.com/search?keywords=libc6 (read 2026-11-23)
_GLIBC = {"22.04": "2_35", "24.04": "2_39"}


@dataclass(frozen=True)
class TargetPython:
    """The Python that runs a job: whose it is, its version, uv's name of its system, and its packages by name.

    `name` is that of a platform, followed by that of its image if this is not the default, or it is HERE. `system` is
    None for the system of this machine.
    """

    name: str
    version: str
    system: str | None
    packages: Mapping[str, str]

    @property
    def digest(self) -> str:
        """What a lock is made for beside the requested packages."""
        facts = (self.version, self.system or sys.platform, sorted(self.packages.items()))
        return sha256(repr(facts).encode()).hexdigest()[:16]


def python_here() -> TargetPython:
    """Return the Python of this process, which runs jobs on this machine."""
    found = ((each.metadata["Name"], each.version) for each in importlib.metadata.distributions())
    # A version such as 2.13.0+cpu is in no index, and has the requirements of 2.13.0.
    packages = {_canonical(name): version.partition("+")[0] for name, version in found if name}
    return TargetPython(HERE, f"{sys.version_info[0]}.{sys.version_info[1]}", None, packages)


def python_of_named_image(name: str, platform: Platform, platform_file: Path) -> TargetPython:
    """Return the Python of the image that a job names, as python_of_image does, or raise UsageError for a digest."""
    if "@" not in name:
        return python_of_image(platform.of_image(name), platform_file)
    raise _not_known(f"the packages of the image {name} are not known")


def python_of_image(platform: Platform, platform_file: Path) -> TargetPython:
    """Return the Python of the image that `platform.image` is.

    Raises UsageError for an image whose packages are not known here, because the user built a part of it.
    """
    image, versions = platform.image, load_versions()
    is_users = {
        "uri": image.uri,
        "base": own_base(platform),
        "dockerfile": image.dockerfile,
    }
    for key, value in is_users.items():
        if value is not None:
            why = f"{platform_file} has {key_of_image(platform)}.{key}, and the packages of that image are not known"
            raise _not_known(why)
    images = images_of(versions, combination_of(platform, versions))
    assert images, "VERSION_RULES let nothing else pass"
    packages = image_packages(platform, versions)
    own = package_lock_file(platform_file, platform.image_name)
    if image.packages.pip and own.is_file():
        packages |= dict(_PACKAGE.findall(own.read_text(encoding="utf-8")))
    release = re.search(r"ubuntu:?(\d\d\.\d\d)", images.base)
    assert release, "every base of the matrix is Ubuntu's"
    is_default = platform.image_name == DEFAULT_IMAGE
    name = platform.name if is_default else f"{platform.name}.{platform.image_name}"
    return TargetPython(name, images.python, f"x86_64-manylinux_{_GLIBC[release[1]]}", packages)


def lock_of(
    requested: RequestedPackages, python: TargetPython, *, write: bool = True, resolve_new: bool = True
) -> LockedPackages:
    """Return the lock of a job's packages for a Python: the one beside the job file, or else a new one.

    With `write`, a new lock is written beside the job file. A requirements file that has checksums is the lock itself.
    Without `resolve_new`, the index is not asked, and a new lock has the requested packages alone.

    Raises UsageError if the requirements file cannot be read, no versions fit together, or the index cannot be asked.
    """
    names = requested.names
    if requested.file is not None:
        listed = _requirements(requested.file)
        if "--hash=" in listed:
            return LockedPackages(listed)
        names = tuple(line for line in map(_without_comment, listed.splitlines()) if line)
        for name in names:
            if name.startswith("-"):
                why, fix = f"{requested.file} has the option {name}", "write packages only, one on each line"
                raise usage_error("run.packages cannot be locked", why=why, fix=fix)
    file = requested.directory / f"{requested.job}.{python.name}.packages.lock"
    facts = {"for": "; ".join(names), "beside": python.digest}
    if file.is_file() and dict(_FACT.findall(found := file.read_text(encoding="utf-8"))) == facts:
        return LockedPackages(found, python.name != HERE)
    if not resolve_new:
        head = "# Not resolved: a launch adds all that these packages require, by version and checksum.\n"
        return LockedPackages(head + "".join(f"{name}\n" for name in names), python.name != HERE)
    lock = _new_lock(names, python, facts)
    if write:
        count = len(_PACKAGE.findall(lock))
        try:
            file.write_text(lock, encoding="utf-8")
        except OSError as error:
            print(f"warning: the lock of run.packages cannot be kept: {error}", file=sys.stderr)
        else:
            print(f"{file}: {count} package{'' if count == 1 else 's'}", file=sys.stderr)
    return LockedPackages(lock, python.name != HERE)


def lock_of_record(requested: RequestedPackages, python: TargetPython) -> LockedPackages:
    """Return a new lock of the packages that a job file in a record names, and write nothing.

    Other people write records. Raises UsageError for a requirements file, because the record would choose a file of
    this machine, and as `lock_of` does.
    """
    if requested.file is not None:
        why = f"the record of the run has no lock of them, and names the file {requested.file.name} of another machine"
        fix = "launch the job anew, with the packages listed in `run.packages` of the job file"
        raise usage_error("run.packages cannot be locked", why=why, fix=fix)
    lock = _new_lock(requested.names, python, {"for": "; ".join(requested.names), "beside": python.digest})
    return LockedPackages(lock, python.name != HERE)


def _new_lock(names: tuple[str, ...], python: TargetPython, facts: Mapping[str, str]) -> str:
    there = python.packages
    kept = kept_packages(there)
    try:
        with found_uv() as uv:
            resolution = resolve_beside(
                # What is there is installed with what it requires. It is required, too, so that uv names a conflict.
                lambda asked, held: resolve(uv, python.version, asked, held, platform=python.system, complete=there),
                [*names, *pinned({name: version for name, version in kept.items() if "-" not in name})],
                there,
            )
    except UnresolvedError as error:
        raise _unresolved(names, python, str(error)) from None
    whose = "this machine" if python.name == HERE else f"the training image of {python.name}"
    head = (
        f"# The Python packages that run.packages adds to those of {whose}, by version and checksum.\n"
        "# `trainway launch` writes this file when the packages change. Commit it together with the job file.\n"
    )
    return text(additions(resolution, there), head + "".join(f"# {key}: {value}\n" for key, value in facts.items()))


def _unresolved(names: tuple[str, ...], python: TargetPython, why: str) -> UsageError:
    whose = "the Python of this machine" if python.name == HERE else f"the training image of {python.name}"
    return usage_error(
        f"run.packages: {', '.join(names)} do not fit into {whose}",
        why=" ".join(why.split()),
        fix=f"name other versions. {whose[0].upper()}{whose[1:]} keeps {named_packages(python.packages)}, and its CUDA "
        "packages",
    )


def _not_known(why: str) -> UsageError:
    return usage_error(
        "run.packages cannot be locked",
        why=why,
        fix="write `packages: FILE` with a list that has a checksum for each package. In the image, "
        "`pip freeze >there.txt`, and `uv pip compile --generate-hashes --constraint there.txt requirements.in` "
        "without the packages of there.txt, makes one",
    )


def _requirements(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fix = "set `run.packages` to a list, or to a file relative to the job file"
        raise usage_error("run.packages cannot be read", why=str(error), fix=fix) from None


def _without_comment(line: str) -> str:
    return re.sub(r"(^|\s)#.*", "", line).strip()


def _canonical(name: str) -> str:
    """Return the name of a package as indexes write it.

    https://packaging.python.org/en/latest/specifications/name-normalization/ (read 2026-11-23)
    """
    return re.sub(r"[-_.]+", "-", name).lower()
