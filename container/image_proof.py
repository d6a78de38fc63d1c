"""Check the training image's real CUDA packages on this machine: `make image-proof`.

The tests build the image from stand-ins, because its packages have 5 GB. This script installs those of the default
combination into build/image-proof, for this machine's Python: PyTorch's CUDA build, what it requires, and Transformer
Engine. It compiles NCCL's all_reduce test with nvcc from the package index, and asks container/verify_image.py.

It needs make, g++ and 12 GB of disk, and no GPU. The environment variable NCCL_TESTS names a directory with the sources
of nccl-tests. Without it, the script downloads them.
"""

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
import venv
from pathlib import Path
from typing import Any

import yaml

from trainway.spec.facts.versions import VERSIONS_FILE

HERE = Path(__file__).resolve().parent
WORK = HERE.parent / "build" / "image-proof"
# One architecture, to compile for a minute and not for ten.
ARCHITECTURE = "-gencode=arch=compute_90,code=sm_90"
CHECKS = """\
import os, sys
from pathlib import Path
import verify_image as v
pytorch, cuda, nccl, test, library = sys.argv[1:]
faults = v.pytorch_faults(pytorch) + v.cuda_faults(cuda, nccl) + v.nccl_test_faults(Path(test))
what, error = v.opened(Path(library), "libcudart.so")
faults += [error] if error else [] if what == f"CUDA {cuda}" else [f"libcudart.so is {what}"]
import transformer_engine.common
print("\\n".join(faults))
"""


def pinned(name: str) -> list[str]:
    """Return the packages of a list of container/requirements with their versions."""
    text = (HERE / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    return re.findall(r"^\S+==\S+", text, re.MULTILINE)


def by_version(entries: list[dict[str, Any]], version: str) -> dict[str, Any]:
    """Return the entry of a version."""
    return next(each for each in entries if each["version"] == version)


def install(python: Path, packages: list[str]) -> None:
    """Install packages without what they require; the lists are whole."""
    environment = {**os.environ, "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *packages], check=True, env=environment)


def nccl_tests(release: dict[str, Any]) -> Path:
    """Return a directory with the sources of nccl-tests; raises ValueError if the download has another checksum."""
    target = WORK / "nccl-tests"
    if given := os.environ.get("NCCL_TESTS"):
        return Path(shutil.copytree(given, target))
    with urllib.request.urlopen(release["url"], timeout=60) as answer:
        archive = answer.read()
    if hashlib.sha256(archive).hexdigest() != release["sha256"]:
        raise ValueError(f"it has another checksum: {release['url']}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(WORK / "unpacked", filter="data")
    return next((WORK / "unpacked").iterdir()).rename(target)


def compiled(sources: Path, nvidia: Path) -> Path:
    """Compile the all_reduce test as the Dockerfile does, without MPI; return the program."""
    nccl, cuda = WORK / "nccl", nvidia / "cu13"
    (nccl / "lib").mkdir(parents=True)
    (nccl / "include").symlink_to(nvidia / "nccl/include")
    (nccl / "lib/libnccl.so").symlink_to(nvidia / "nccl/lib/libnccl.so.2")
    program = sources / "build/all_reduce_perf"
    settings = [f"CUDA_HOME={cuda}", f"CUDA_LIB={cuda}/lib", "CUDARTLIB=cudart_static", f"NCCL_HOME={nccl}"]
    # The tests' makefiles take the place of the objects from the directory that they begin in.
    command = [
        "make",
        "-C",
        str(sources / "src"),
        *settings,
        f"NVCC_GENCODE={ARCHITECTURE}",
        "../build/all_reduce_perf",
    ]
    flags = f"-Xlinker -rpath={nvidia}/nccl/lib"
    subprocess.run(command, check=True, env={**os.environ, "NVCC_APPEND_FLAGS": flags}, stdout=subprocess.DEVNULL)
    return program


def main() -> int:
    """Print every fault, and how long the checks took; return 0, or 1 with at least one fault."""
    versions = yaml.safe_load(VERSIONS_FILE.read_text(encoding="utf-8"))
    name = versions["channels"].get(versions["default"], versions["default"])
    chosen = next(each for each in versions["combinations"] if each["name"] == name)
    wheel = by_version(versions["pytorch"], chosen["pytorch"])
    engine, cuda = chosen["transformer_engine"], ".".join(wheel["cuda_toolkit"].split(".")[:2])
    major = cuda.partition(".")[0]
    shutil.rmtree(WORK, ignore_errors=True)
    venv.create(WORK / "venv", with_pip=True)
    python = WORK / "venv/bin/python"
    parts = [f"transformer_engine=={engine}", f"transformer_engine_cu{major}=={engine}"]
    install(python, [f"torch=={wheel['version']}", *pinned(f"pytorch-{wheel['version']}")])
    install(python, pinned(f"cuda-toolkit-{wheel['cuda_toolkit']}"))
    # In the order of the Dockerfile: an add-on replaces some of the job's packages.
    install(python, [*pinned("build-tools"), *(each for each in pinned("training") if not each.startswith("s3torch"))])
    install(python, [*parts, *pinned(f"transformer-engine-{engine}")])
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    nvidia = Path(site.stdout.strip()) / "nvidia"
    program = compiled(nccl_tests(by_version(versions["nccl_tests"], chosen["nccl_tests"])), nvidia)
    (WORK / "lib").mkdir()
    (WORK / "lib/libcudart.so").symlink_to(nvidia / f"cu{major}/lib/libcudart.so.{major}")
    began = time.monotonic()
    arguments = [wheel["version"], cuda, wheel["nccl"], str(program), str(nvidia / "nccl/lib/libnccl.so.2")]
    done = subprocess.run(
        [python, "-W", "ignore", "-c", CHECKS, *arguments],
        cwd=HERE,
        env={**os.environ, "LD_LIBRARY_PATH": str(WORK / "lib")},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    print(done.stdout.strip() or f"{name}: no fault, in {time.monotonic() - began:.1f} seconds")
    return 1 if done.stdout.strip() else 0


if __name__ == "__main__":
    sys.exit(main())
