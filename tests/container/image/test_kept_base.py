"""A base of the shape of NVIDIA's framework images keeps its packages, and a program in it loads AWS's EFA."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.container import stand_ins
from tests.container.image.yard import BASE, Yard
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.image.image_build import build_arguments
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform

pytestmark = pytest.mark.exhaustive

NGC = "localhost/ngc:1"
PINNED = f"nvcr.io/nvidia/nemo:26.08.01@sha256:{'0' * 64}"
PYTHON = f"usr/local/lib/python{stand_ins.PYTHON}/dist-packages"
# PyTorch of NVIDIA's images links to NCCL and to HPC-X's MPI:
# https://github.com/awslabs/awsome-distributed-ai, 3.test_cases/megatron/megatron-bridge/Dockerfile (read 2026-11-28)
TORCH = """\
import ctypes
from types import SimpleNamespace
mpi, nccl = ctypes.CDLL("libmpi.so.40"), ctypes.CDLL("libnccl.so.2")
__version__ = "2.14.0a0"
version = SimpleNamespace(cuda="13.0")
"""
RUN = "def main():\n    print('usage: torchrun [-h]')\n"
NCCL = "int ncclGetVersion(int *version) { *version = %d; return 0; }"
CUDART = "int cudaRuntimeGetVersion(int *version) { *version = 13000; return 0; }"
FOREIGN = "/opt/hpcx/nccl_spectrum-x_plugin/lib"
ENVIRONMENT = {
    "HPCX_DIR": "/opt/hpcx",
    "LD_LIBRARY_PATH": f"{FOREIGN}:/opt/hpcx/ucx/lib:/opt/hpcx/ompi/lib",
    "NCCL_NET_PLUGIN": "spcx",
    "OPAL_PREFIX": "/opt/hpcx/ompi",
}
OURS = ("/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so", "/opt/amazon/efa/lib/libfabric.so.1")
SETS = "    NCCL_NET_PLUGIN=ofi \\\n"
FIRST = (
    "ENV LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib64:/opt/amazon/efa/lib:/opt/amazon/efa/lib64"
)
# What is removed from the stage of the Dockerfile, or from a script, and what the build says then.
MENDS = {
    "the path": (
        "container/Dockerfile",
        FIRST + "${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}",
        "ENV LD_LIBRARY_PATH=${LD_LIBRARY_PATH}:/opt/amazon/ofi-nccl/lib:/opt/amazon/efa/lib",
        [
            f"{FOREIGN}/libnccl-net-ofi.so, and not the plugin for NCCL in /opt/amazon/ofi-nccl",
            "/opt/hpcx/ucx/lib/libfabric.so.1, and not the libfabric in /opt/amazon/efa",
        ],
    ),
    "the plugin's name": ("container/Dockerfile", SETS, "", ["the image sets NCCL_NET_PLUGIN=spcx"]),
    "the purge": (
        "container/purge_efa.sh",
        "dpkg --purge",
        "true",
        ["dpkg knows efa-profile, and its file is not there"],
    ),
}


def shape(directory: Path) -> None:
    """Give a Debian with Python the paths of NVIDIA's framework images, with libraries of a function each."""

    def library(path: str, source: str = stand_ins.OTHERS, needs: Sequence[str] = ()) -> None:
        needed = [directory / each for each in needs]
        stand_ins.shared_library(directory / path, Path(path).name, *needed, source=source)

    library("usr/lib/x86_64-linux-gnu/libnccl.so.2", NCCL % 22903)
    library("usr/local/cuda/lib64/libcudart.so.13", CUDART)
    (directory / "usr/local/cuda/lib64/libcudart.so").symlink_to("libcudart.so.13")
    library("opt/hpcx/ompi/lib/libmpi.so.40")
    library("opt/hpcx/ucx/lib/libfabric.so.1")
    for name in ("spcx", "ofi"):
        plugin = f"{FOREIGN[1:]}/libnccl-net-{name}.so"
        library(plugin, needs=["opt/hpcx/ucx/lib/libfabric.so.1"])
    conf = directory / "etc/ld.so.conf.d"
    (conf / "cuda.conf").write_text("/usr/local/cuda/lib64\n")
    (conf / "aws-ofi-nccl.conf").write_text("/opt/amazon/aws-ofi-nccl/lib\n")
    (directory / PYTHON / "torch/distributed").mkdir(parents=True)
    (directory / PYTHON / "torch/__init__.py").write_text(TORCH)
    (directory / PYTHON / "torch/distributed/__init__.py").touch()
    (directory / PYTHON / "torch/distributed/run.py").write_text(RUN)
    info = directory / PYTHON / "torch-2.14.0a0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.14.0a0\n")
    (info / "RECORD").touch()
    # dpkg knows parts of an EFA installer whose files are gone.
    place = directory / "tmp/efa"
    for name in ("efa-profile", "libnccl-ofi-ngc-v2"):
        root = place / name
        root.mkdir(parents=True)
        stand_ins.package(place, name, "1.7", root)
        command = ["dpkg", "--root", str(directory), "--install", str(place / f"{name}.deb")]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def arguments(built: Yard) -> dict[str, str]:
    """The arguments of a platform whose file has a base of NVIDIA's and one key beside it."""
    container = built.container(shape, image=BASE)
    built.shell(container, "ldconfig")
    built.configure(container, ENVIRONMENT)
    built.commit(container, NGC)
    platform = Platform.model_validate(
        {
            "region": "us-west-2",
            "zones": ["usw2-az1"],
            "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
            "image": {"base": PINNED, "base_packages": "kept"},
        }
    )
    made = build_arguments(platform, load_catalogue(), load_versions())
    served = {name: built.arguments["cuda"][name] for name in ("EFA_INSTALLER_SHA256", "EFA_INSTALLER_URL")}
    assert all(made[name] for name in served)
    return made | served | {"BASE_IMAGE": NGC, "CUDA_DEVEL_IMAGE": "localhost/devel:1"}


def test_a_program_loads_efa_and_the_packages_stay(built: Yard, arguments: dict[str, str]) -> None:
    done = built.stage("base.sh", arguments, BASE_TAG="ngc")
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall(r"verify_image: a program loads (.*)$", done.stdout + done.stderr, re.MULTILINE)
    assert said == [
        f"the plugin for NCCL {OURS[0]}",
        f"the libfabric {OURS[1]}",
        "NCCL 2.29.3 in /usr/lib/x86_64-linux-gnu/libnccl.so.2",
    ]
    done = built.image("ngc", arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    read = (
        "import torch, ctypes; ctypes.CDLL('libnccl-net-ofi.so'); print(torch.__file__, open('/proc/self/maps').read())"
    )
    maps = built.inside("ngc", "python", "-c", read)
    assert maps.startswith(f"/{PYTHON}/torch") and "/opt/hpcx/ompi/lib/libmpi.so.40" in maps
    assert all(library in maps for library in OURS) and "/opt/hpcx/ucx" not in maps
    assert built.configuration("ngc")["Labels"]["trainway.efa-installer"]


@pytest.mark.parametrize("mend", MENDS)
def test_without_a_mend_the_build_fails_and_says_why(built: Yard, arguments: dict[str, str], mend: str) -> None:
    name, right, wrong, says = MENDS[mend]
    file = built.root / name
    text = file.read_text()
    at = text.index("AS environment-kept-cuda") if name.endswith("Dockerfile") else 0
    assert right in text[at:]
    file.write_text(text[:at] + text[at:].replace(right, wrong, 1))
    try:
        # buildah takes a step from its cache whose mounted script is another one. BuildKit does not.
        done = built.stage("base.sh", arguments, BASE_TAG="unmended", LAYERS="false")
    finally:
        file.write_text(text)
    assert done.returncode != 0
    assert all(each in done.stdout + done.stderr for each in says), done.stdout + done.stderr


def test_an_nccl_that_is_too_old_fails_the_build(built: Yard, arguments: dict[str, str]) -> None:
    def older(directory: Path) -> None:
        file = directory / "usr/lib/x86_64-linux-gnu/libnccl.so.2"
        stand_ins.shared_library(file, file.name, source=NCCL % 21602)

    built.commit(built.container(older, image=NGC), "localhost/older:1")
    done = built.image("older", arguments | {"BASE_IMAGE": "localhost/older:1"})
    assert done.returncode != 0
    assert "NCCL is 2.16.2, and the plugin supports 2.17.1 and newer" in done.stderr
