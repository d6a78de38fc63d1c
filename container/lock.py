"""Writes container/requirements: the packages of the image, every one by its version and checksum.

    make lock

It asks the package index, and takes minutes: uv, which resolves for a platform other than its own, is installed into a
directory of its own, and builds what is published as sources to see what that requires.

A list has what an image gets beside what those before it have: pytorch-<version>.txt what PyTorch requires,
build-tools.txt what builds a package that is published as sources, training.txt what the job requires, and one for each
add-on of versions.yaml. All are resolved together, so that any of them can be in one image. cuda-toolkit-<version>.txt
is whole, because nccl-tests are compiled without the others.

A list that is there keeps its versions where they still fit, so that a new release changes no image without it. With
`--missing`, lists that are there stay as they are, and only combinations that lack one are resolved. With `--new`,
everything is resolved anew.
"""

import hashlib
import io
import re
import sys
import tarfile
import tomllib
import urllib.request
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from trainway.delivery.resolution import (
    Package,
    Resolution,
    UnresolvedError,
    besides,
    installed_uv,
    pinned,
    resolve,
    text,
    without,
)
from trainway.spec.facts.versions import VERSIONS_FILE

HERE = Path(__file__).resolve().parent
# What constraints.txt pins too high for an add-on: nvidia-cutlass-dsl-libs-base 4.6.2 requires protobuf below 7, by its
# metadata (read 2026-11-21), and TensorBoard takes that as well. An image without add-ons has it as it is pinned.
RELEASED = {"protobuf"}
# What sources are built with besides what they declare. Transformer Engine's setup.py imports wheel, and PyTorch's
# extension compiles on one core without ninja. (transformer_engine_torch 2.20.2, its sources, read 2026-11-21)
UNDECLARED = {"transformer-engine-torch": ["ninja", "wheel"]}
# What an image has from elsewhere: a virtual environment pip, and PyTorch by its checksum in versions.yaml.
THERE = {"pip", "torch"}


def common(resolutions: Iterable[Resolution]) -> Resolution:
    """The packages of all, by name; raises ValueError where one differs."""
    found: dict[str, set[Package]] = {}
    for resolution in resolutions:
        for name, package in resolution.items():
            found.setdefault(name, set()).add(package)
    if several := sorted(name for name, packages in found.items() if len(packages) > 1):
        raise ValueError(f"it differs between combinations: {', '.join(several)}")
    return {name: package for name, [package] in sorted(found.items())}


def declared(archive: bytes) -> list[str]:
    """What the sources in a gzipped tar declare that they are built with.

    https://packaging.python.org/en/latest/specifications/pyproject-toml/ (read 2026-11-21): setuptools where they are
    silent.
    """
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            if member.name.count("/") == 1 and member.name.endswith("/pyproject.toml"):
                file = tar.extractfile(member)
                assert file is not None, "it is a regular file"
                project = tomllib.loads(file.read().decode())
                return list(project.get("build-system", {}).get("requires", ["setuptools"]))
    return ["setuptools"]


def tools(resolution: Resolution) -> list[str]:
    """What the packages without a wheel are built with; raises ValueError where an archive has another checksum."""
    needed = []
    for name, package in resolution.items():
        if package.sources:
            with urllib.request.urlopen(package.sources, timeout=60) as answer:
                archive = answer.read()
            if hashlib.sha256(archive).hexdigest() not in package.checksums:
                raise ValueError(f"it has another checksum: {package.sources}")
            needed += [*declared(archive), *UNDECLARED.get(name, ())]
    return needed


def job() -> tuple[list[str], dict[str, str]]:
    """What the job requires, and the versions that it is pinned to by name, PyTorch's apart."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    lines = (HERE.parent / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    del pins["torch"]
    return project["project"]["optional-dependencies"]["training"], pins


def files_of(combination: Mapping[str, str], toolkit: str) -> list[Path]:
    """The files of a combination's lists, in the order in which the image is built from them."""
    of_versions = {
        "pytorch": combination["pytorch"],
        "cuda-toolkit": toolkit,
        "transformer-engine": combination["transformer_engine"],
        "nemo": combination["nemo"],
        "flash-attention": combination["flash_attention"],
        "hyperpod-elastic-agent": combination.get("hyperpod_elastic_agent"),
    }
    names = ["build-tools", "training", *(f"{name}-{version}" for name, version in of_versions.items() if version)]
    return [HERE / "requirements" / f"{name}.txt" for name in names]


def listed(combination: Mapping[str, str], toolkit: str) -> dict[str, str]:
    """The versions by name in those lists of a combination that are there."""
    # An add-on can have a package in another version than the job has: the first list counts.
    found: dict[str, str] = {}
    for file in files_of(combination, toolkit):
        if file.exists():
            found = dict(re.findall(r"^(\S+)==(\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)) | found
    return found


def of_combination(
    uv: Path, versions: Mapping[str, Any], combination: Mapping[str, str], kept: Mapping[str, str]
) -> dict[str, Resolution]:
    """What each list has for one combination of versions.yaml, by the list's name, in the versions of `kept`."""
    python = next(images["python"] for images in versions["images"] if images["name"] == combination["images"])
    find = partial(resolve, uv, python)
    agent = combination.get("hyperpod_elastic_agent")
    toolkit = toolkit_of(versions, combination)
    torch, nemo, engine = combination["pytorch"], combination["nemo"], combination["transformer_engine"]
    attention = combination["flash_attention"]
    cuda = next(each["cuda"] for each in versions["transformer_engine"] if each["version"] == engine)
    parts = ("transformer_engine", f"transformer_engine_cu{cuda}", "transformer_engine_torch")
    add_ons = {
        f"transformer-engine-{engine}": [f"{part}=={engine}" for part in parts],
        f"nemo-{nemo}": [f"nemo-automodel=={nemo}"],
        f"flash-attention-{attention}": [f"flash-attn-4[cu{cuda}]=={attention}"],
        **({f"hyperpod-elastic-agent-{agent}": [f"hyperpod-elastic-agent=={agent}"]} if agent else {}),
    }
    required, pins = job()
    required = [f"torch=={torch}", *required]
    toolkit_package = f"cuda-toolkit[nvcc,cccl]=={toolkit}"
    # nvcc requires its parts in any version, and works with those of its own release alone.
    nvcc = find([toolkit_package], [])["nvidia-cuda-nvcc"].version
    compiler = [toolkit_package, *(f"{part}=={nvcc}" for part in ("nvidia-cuda-crt", "nvidia-nvvm"))]

    together = [*compiler, *required, *(each for requirements in add_ons.values() for each in requirements)]
    held = {name: version for name, version in {**kept, **pins}.items() if name not in RELEASED}
    everything = find(together, pinned(held))
    chosen = {name: package.version for name, package in everything.items()}
    brought = without(find([f"torch=={torch}"], pinned(chosen)), THERE)
    build = besides(without(find(tools(everything), pinned(chosen)), THERE), brought)
    training = find(required, pinned(chosen | {name: pins[name] for name in RELEASED}))
    training = besides(without(training, THERE), brought, build)
    found = {f"pytorch-{torch}": brought, "build-tools": build, "training": training}
    found[f"cuda-toolkit-{toolkit}"] = find(compiler, pinned(chosen))
    for name, requirements in add_ons.items():
        # What versions.yaml has a checksum of is installed by that.
        own = THERE | {part.replace("_", "-") for part in parts}
        add_on = without(find([f"torch=={torch}", *requirements], pinned(chosen)), own)
        found[name] = besides(add_on, brought, build, training)
    # The image builds nothing else: HyperPod publishes its agent as sources only.
    built = {"training", f"hyperpod-elastic-agent-{agent}"}
    if unbuilt := [name for key, each in found.items() if key not in built for name in each if each[name].sources]:
        raise ValueError(f"it has no wheel: {', '.join(unbuilt)}")
    return found


def toolkit_of(versions: Mapping[str, Any], combination: Mapping[str, str]) -> str:
    """The CUDA toolkit that the PyTorch of a combination requires."""
    return str(next(each for each in versions["pytorch"] if each["version"] == combination["pytorch"])["cuda_toolkit"])


def lists(uv: Path, versions: Mapping[str, Any], *, keep: bool, only_missing: bool = False) -> dict[str, str]:
    """The lists by their files' names. With `keep`, those that are there keep their versions where they still fit.

    With `only_missing`, those that are there are as they were.
    """
    found: dict[str, list[Resolution]] = {}
    unchanged: dict[str, str] = {}
    for combination in versions["combinations"]:
        toolkit = toolkit_of(versions, combination)
        if only_missing:
            there = [file for file in files_of(combination, toolkit) if file.exists()]
            unchanged |= {file.name: file.read_text(encoding="utf-8") for file in there}
            if len(there) == len(files_of(combination, toolkit)):
                continue
        kept = listed(combination, toolkit) if keep else {}
        try:
            resolutions = of_combination(uv, versions, combination, kept)
        except UnresolvedError:
            if not kept:
                raise
            resolutions = of_combination(uv, versions, combination, {})
        for name, resolution in resolutions.items():
            found.setdefault(f"{name}.txt", []).append(resolution)
    return {file: text(common(resolutions)) for file, resolutions in found.items()} | unchanged


def main() -> int:
    """Writes the lists of the matrix, and takes away those of versions that it does not have any more."""
    versions = yaml.safe_load(VERSIONS_FILE.read_text(encoding="utf-8"))
    with installed_uv() as uv:
        options = sys.argv[1:]
        written = lists(uv, versions, keep="--new" not in options, only_missing="--missing" in options)
    target = HERE / "requirements"
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    for name, content in written.items():
        (target / name).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
