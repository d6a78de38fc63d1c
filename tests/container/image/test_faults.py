"""Builds that must fail, and what they say. Each begins with the stages that were built before."""

from __future__ import annotations

import re

import pytest

from tests.container.builder import BASES, REGISTRY
from tests.container.image.yard import BASE, OLD_RUNTIME, Yard
from trainway.spec.facts.versions import requirements_of
from trainway.spec.loader import load_versions

# The first of these builds the whole image, which takes a minute.
pytestmark = pytest.mark.exhaustive

FI_INFO = "/opt/amazon/efa/bin/fi_info"
PLUGIN = "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"
PYTORCH = "/opt/trainway/lib/python*/site-packages/torch/__init__.py"
LIBFABRIC = "/opt/amazon/efa/lib/libfabric.so.1"
LINK = "/usr/local/lib/libcudart.so"
OPENERS = (PLUGIN, LIBFABRIC)
NOT_FOUND = "libcudart.so: cannot open shared object file: No such file or directory"
# Commands that damage a base, and what is said of it: faults that do not hide one another.
DAMAGES = {
    "another-release": (
        [
            f"sed -i s/2.4.0amzn/1.9.0amzn/g {FI_INFO}",
            "sed -i s/1.20.0-1/1.19.0-1/ /var/lib/dpkg/status",
            f"sed -i 's/^__version__.*/__version__ = \"2.12.1\"/' {PYTORCH}",
            f'sed -i \'s/cuda="13.0"/cuda="12.9"/\' {PYTORCH}',
            f"sed -i 's/(2, 29, 7)/(2, 28, 9)/' {PYTORCH}",
        ],
        [
            "libfabric is 1.9.0amzn5.0, expected 2.4.0amzn5.0",
            "aws-ofi-nccl is 1.19.0, expected 1.20.0",
            "PyTorch is 2.12.1, expected 2.13.0",
            "CUDA is 12.9, expected 13.0",
            "NCCL is 2.28.9, expected 2.29.7",
        ],
    ),
    "a-part-missing": (
        [f"sed -i s/efa:/efa_shm:/ {FI_INFO}", f"rm {PLUGIN}", "rm /opt/nccl-tests/bin/all_reduce_perf"],
        [
            "libfabric has no efa provider",
            "no libnccl-net-ofi.so below /opt/amazon/ofi-nccl",
            "no /opt/nccl-tests/bin/all_reduce_perf",
        ],
    ),
    "a-library-missing": (
        [f"rm {LIBFABRIC}", "rm /opt/nccl"],
        [
            f"{PLUGIN} cannot find libfabric.so.1",
            "/opt/nccl-tests/bin/all_reduce_perf cannot find libnccl.so.2",
        ],
    ),
    "the-link-left-out": (
        [f"rm {LINK}", "ldconfig"],
        [f"{opener} opens libcudart.so at run time and cannot: {NOT_FOUND}" for opener in OPENERS],
    ),
    "another-cuda": (
        [
            f"/opt/trainway/bin/pip install --quiet --no-deps --target /opt/old {OLD_RUNTIME}",
            f"ln -sf /opt/old/nvidia/cuda_runtime/lib/libcudart.so.12 {LINK}",
            "ldconfig",
        ],
        [f"{opener} opens libcudart.so at run time, which is CUDA 12.9, not CUDA 13.0" for opener in OPENERS],
    ),
    "the-plugin-elsewhere": (
        ["mkdir /opt/amazon/ofi-nccl/old", f"mv {PLUGIN} /opt/amazon/ofi-nccl/old/"],
        [f"NCCL cannot open libnccl-net-ofi.so: {NOT_FOUND.replace('libcudart', 'libnccl-net-ofi')}"],
    ),
}


CHECKSUMS = ("EFA_INSTALLER_SHA256", "NCCL_TESTS_SHA256", "PYTORCH_SHA256")


@pytest.mark.parametrize("name", DAMAGES)
def test_a_build_with_something_wrong_in_it_fails_and_says_what(built: Yard, name: str):
    commands, faults = DAMAGES[name]
    broken = f"localhost/broken:{name}"
    built.derive(f"{REGISTRY}/{BASES}:closed", broken, " && ".join(commands))
    done = built.image(name, built.arguments["cuda"], INSTEAD=f"python=docker-image://{broken}")
    assert done.returncode != 0
    assert re.findall(r"^verify_image: (.*)$", done.stderr, re.MULTILINE) == faults
    assert not (built.root / "ecr/atlas/training" / name).exists()


@pytest.mark.parametrize("name", CHECKSUMS)
def test_a_download_with_another_checksum_fails_the_build(built: Yard, name: str):
    done = built.image(name.lower(), built.arguments["cuda"] | {name: "0" * 64})
    assert done.returncode != 0
    assert re.search(r"computed checksum did NOT match|DO NOT MATCH THE HASHES", done.stdout + done.stderr)


PYTORCH_LIST = requirements_of("pytorch", load_versions().pytorch[0].version)
NEMO_LIST = requirements_of("nemo", load_versions().nemo[0].version)
OTHER_CHECKSUM = "s/sha256:.\\{8\\}/sha256:00000000/"


@pytest.mark.parametrize(
    ("name", "edit", "says"),
    [
        ("build-tools.txt", "/^build==/,+1d", "missing: 'build'"),
        ("training.txt", OTHER_CHECKSUM, "DO NOT MATCH THE HASHES"),
        (PYTORCH_LIST, "/^nvidia-cudnn/,+1d", "requires nvidia-cudnn-cu13, which is not installed"),
        ("training.txt", "/^annotated-types/,+1d", "requires annotated-types, which is not installed"),
        (NEMO_LIST, OTHER_CHECKSUM, "DO NOT MATCH THE HASHES"),
        (NEMO_LIST, "/^transformers/,+1d", "requires transformers, which is not installed"),
    ],
)
def test_a_list_that_is_not_what_is_published_or_not_whole_fails_the_build(
    built: Yard, name: str, edit: str, says: str
):
    file = built.root / "container/requirements" / name
    right = file.read_text()
    built.must("sed", "--in-place", edit, str(file))
    try:
        done = built.image("faulty", built.arguments["cuda"] | built.nemo)
    finally:
        file.write_text(right)
    assert done.returncode != 0
    assert says in done.stdout + done.stderr


def test_a_snapshot_of_another_distribution_fails_the_build_and_says_so(built: Yard):
    built.derive(
        BASE, "localhost/debian:1", "sed -i s/ubuntu/debian/ /etc/os-release; sed -i s/Ubuntu/Debian/ /etc/os-release"
    )
    done = built.image("debian", built.arguments["cuda"] | {"BASE_IMAGE": "localhost/debian:1"})
    assert done.returncode != 0
    assert "image.refresh: the base image is Debian, and only Ubuntu has these snapshots" in done.stderr


def test_a_snapshot_with_another_signature_fails_the_build(built: Yard):
    lost = ": >/usr/share/keyrings/ubuntu-archive-keyring.gpg"
    built.derive(BASE, "localhost/distrusts:1", lost)
    done = built.image("distrusts", built.arguments["cuda"] | {"BASE_IMAGE": "localhost/distrusts:1"})
    assert done.returncode != 0
    assert "NO_PUBKEY" in done.stdout + done.stderr
