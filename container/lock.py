"""Writes container/requirements: what each add-on of versions.yaml requires, every package by version and checksum.

    .venv/bin/python container/lock.py

It asks the package index, and takes minutes: uv, which resolves for a platform other than its own, is installed into a
directory of its own, and builds what is published as sources to see what that requires.

Job and add-ons are resolved together, so that any of them can be in one image. What differs between the combinations
that name an add-on belongs to their PyTorch, which brings it along; the list has the rest.
"""

import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
UV = "uv==0.13.9"
# That of PyTorch's wheel, so that the image has no older glibc.
PLATFORM = "x86_64-manylinux_2_28"
# What constraints.txt pins too high for an add-on: nvidia-cutlass-dsl-libs-base 4.6.2 requires protobuf below 7, by its
# metadata (read 2026-11-21), and TensorBoard takes that as well.
RELEASED = {"protobuf"}


@dataclass(frozen=True)
class Package:
    """A version, and the SHA-256 checksums of its wheels for the platform."""

    version: str
    checksums: tuple[str, ...]


Resolution = Mapping[str, Package]


def parsed(lock: Mapping[str, Any]) -> Resolution:
    """The packages of a pylock.toml by name. https://packaging.python.org/en/latest/specifications/pylock-toml/"""
    found = {}
    for each in lock["packages"]:
        checksums = sorted(wheel["hashes"]["sha256"] for wheel in each.get("wheels", ()))
        found[each["name"]] = Package(each["version"], tuple(checksums))
    return found


def common(resolutions: Iterable[Resolution], brought: Iterable[str]) -> dict[str, Package]:
    """The packages that are the same in all, less those of other versions among `brought`, which come with PyTorch.

    Raises ValueError where others differ, or where one is published without a wheel.
    """
    found: dict[str, set[Package]] = {}
    for resolution in resolutions:
        for name, package in resolution.items():
            found.setdefault(name, set()).add(package)
    several = {name for name, packages in found.items() if len(packages) > 1}
    if unexplained := several - set(brought):
        raise ValueError(f"it differs between combinations: {', '.join(sorted(unexplained))}")
    same = {name: package for name, [package, *_] in sorted(found.items()) if name not in several}
    if unbuilt := [name for name, package in same.items() if not package.checksums]:
        raise ValueError(f"it has no wheel: {', '.join(unbuilt)}")
    return same


def text(packages: Mapping[str, Package]) -> str:
    """A list of requirements for pip."""
    lines = (
        " \\\n    ".join([f"{name}=={package.version}", *(f"--hash=sha256:{each}" for each in package.checksums)])
        for name, package in packages.items()
    )
    return "# Written by container/lock.py.\n" + "".join(f"{line}\n" for line in lines)


def resolve(uv: Path, python: str, requirements: Iterable[str], constraints: Iterable[str]) -> Resolution:
    """What pip would install of the requirements; raises CalledProcessError after uv has said why it cannot be."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "requirements.in").write_text("\n".join(requirements))
        (place / "constraints.txt").write_text("\n".join(constraints))
        command = [str(uv), "pip", "compile", "requirements.in", "--constraint", "constraints.txt", "--quiet"]
        target = ["--python-version", python, "--python-platform", PLATFORM]
        output = ["--format", "pylock.toml", "--output-file", "pylock.toml"]
        subprocess.run([*command, *target, *output], check=True, cwd=place)
        return parsed(tomllib.loads((place / "pylock.toml").read_text(encoding="utf-8")))


def job() -> tuple[list[str], list[str]]:
    """What the job requires, and the versions that it is pinned to, PyTorch's apart."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    pins = (HERE.parent / "constraints.txt").read_text(encoding="utf-8").splitlines()
    kept = [pin for pin in pins if "==" in pin and pin.partition("==")[0] not in {"torch", *RELEASED}]
    return project["project"]["optional-dependencies"]["training"], kept


def lists(uv: Path, versions: Mapping[str, Any]) -> dict[str, str]:
    """The lists by their files' names."""
    required, pins = job()
    pythons = {images["name"]: images["python"] for images in versions["images"]}
    engines = {engine["version"]: engine for engine in versions["transformer_engine"]}
    found: dict[str, list[Resolution]] = {}
    brought = {"torch"}
    for combination in versions["combinations"]:
        python, torch = pythons[combination["images"]], f"torch=={combination['pytorch']}"
        engine = engines[combination["transformer_engine"]]
        parts = ("transformer_engine", f"transformer_engine_cu{engine['cuda']}", "transformer_engine_torch")
        add_ons = {
            f"transformer-engine-{engine['version']}": [f"{part}=={engine['version']}" for part in parts],
            f"nemo-{combination['nemo']}": [f"nemo-automodel=={combination['nemo']}"],
        }
        everything = [torch, *required, *(each for requirements in add_ons.values() for each in requirements)]
        chosen = [f"{name}=={each.version}" for name, each in resolve(uv, python, everything, pins).items()]
        brought |= resolve(uv, python, [torch], chosen).keys()
        for file, requirements in add_ons.items():
            # What versions.yaml has a checksum of is installed by that.
            own = {"torch", *(part.replace("_", "-") for part in parts)}
            alone = resolve(uv, python, [torch, *requirements], chosen)
            found.setdefault(f"{file}.txt", []).append({name: each for name, each in alone.items() if name not in own})
    return {file: text(common(resolutions, brought)) for file, resolutions in found.items()}


def main() -> int:
    """Writes the lists of the matrix, and takes away those of versions that it does not have any more."""
    versions = yaml.safe_load((HERE / "versions.yaml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        subprocess.run([f"{directory}/bin/pip", "install", "--quiet", UV], check=True)
        written = lists(Path(directory) / "bin/uv", versions)
    target = HERE / "requirements"
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    for name, content in written.items():
        (target / name).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
