"""What the image has that the real Dockerfile gives."""

from __future__ import annotations

import re

import pytest

from tests.container import stand_ins
from tests.container.builder import ROOT
from tests.container.image.yard import OF_THE_BASE, Yard

# The first of these builds the whole image, which takes a minute.
pytestmark = pytest.mark.exhaustive


def test_the_stage_reports_the_digest_of_what_it_built(built: Yard):
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", (built.root / "data").read_text())


def test_another_line_of_the_job_makes_one_layer(built: Yard):
    job = built.root / "training/train.py"
    right = job.read_text()
    job.write_text(f"{right}\n# another line\n")
    try:
        variables = {"NETWORK_ACCESS": "closed", "IMAGE_TAG": "edited", "BASE_TAG": "closed"}
        done = built.stage("image.sh", built.arguments["cuda"], **variables)
    finally:
        job.write_text(right)
    assert done.returncode == 0, done.stdout + done.stderr
    before, after = built.layers("closed"), built.layers("edited")
    assert before[:-1] == after[:-1]
    assert before[-1] != after[-1]


def test_a_command_begins_in_the_home_directory_of_the_user_of_jobs(built: Yard):
    assert built.inside("closed", "pwd") == "/home/trainer\n"


def test_its_command_is_torchrun(built: Yard):
    configuration = built.configuration("closed")
    assert not configuration.get("Entrypoint")
    assert built.inside("closed", *configuration["Cmd"]).startswith("usage: torchrun")


def test_the_job_is_found_from_any_directory(built: Yard):
    assert "/opt/trainway/src/training" in built.inside(
        "closed", "python", "-c", "import training; print(training.__path__)"
    )


def test_nccls_tests_find_their_libraries(built: Yard):
    assert built.inside("closed", "all_reduce_perf") == ""
    assert "/opt/nccl/lib/libnccl.so.2" in built.inside("closed", "ldd", "/opt/nccl-tests/bin/all_reduce_perf")


def test_gdrcopys_library_is_found_by_the_name_that_others_open_it_by(built: Yard):
    opened = "import ctypes; ctypes.CDLL('libgdrapi.so'); print('opened')"
    assert built.inside("closed", "env", "-u", "LD_LIBRARY_PATH", "python", "-c", opened) == "opened\n"


START = "import ctypes, os; plugin = ctypes.CDLL('libnccl-net-ofi.so'); plugin.ncclOfiStart()"


def test_the_plugin_is_found_by_its_name_and_finds_the_cuda_runtime(built: Yard):
    assert built.inside("closed", "python", "-c", START) == "on to the driver\n"


def test_a_process_that_sshd_starts_finds_the_cuda_runtime(built: Yard):
    plugin = "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"
    start = START.replace("libnccl-net-ofi.so", plugin)
    environment = ["env", "--ignore-environment", "LD_LIBRARY_PATH=/opt/amazon/efa/lib"]
    assert built.inside("closed", *environment, "python3", "-c", start) == "on to the driver\n"


def test_plugin_and_pytorch_have_one_cuda_runtime(built: Yard):
    link = built.inside("closed", "readlink", "--canonicalize", "/usr/local/lib/libcudart.so").strip()
    assert re.fullmatch(r"/opt/trainway/lib/python[\d.]+/site-packages/nvidia/cu13/lib/libcudart.so.13", link)


def test_every_package_is_that_of_the_snapshot_and_none_of_the_live_archive(built: Yard):
    of_the_snapshot = {f"{name}=1:99" for name in stand_ins.INSTALLED} | {f"{OF_THE_BASE}=1.1"}
    assert built.versions_of_packages("closed") == of_the_snapshot
    sources = built.inside("closed", "cat", "/etc/apt/sources.list.d/ubuntu.sources")
    assert f"URIs: {built.url}/ubuntu\n" in sources
    assert built.inside("closed", "find", "/etc/apt", "-name", "*.list") == "", "nothing else is a source"


def test_neither_archives_nor_package_lists_are_in_it(built: Yard):
    kept = built.inside(
        "closed", "bash", "-c", "ls /tmp/efa /var/cache/apt /var/lib/apt /root/.cache/pip 2>/dev/null || true"
    )
    assert "tar.gz" not in kept and "Packages" not in kept and "whl" not in kept


def test_what_was_installed_has_the_date_of_the_image_and_not_of_the_build(built: Yard):
    """Two builds with the same packages have the same layers, so that a node fetches each layer once."""
    date = f"@{built.arguments['cuda']['SOURCE_DATE_EPOCH']}"
    assert built.inside("closed", "find", "/opt/trainway/lib", "/etc/passwd", "-newermt", date) == ""
    # Modules are checked by the hash of their source: https://peps.python.org/pep-0552/ (read 2026-11-23)
    flags = "import pathlib; print({file.read_bytes()[4] for file in pathlib.Path('/opt/trainway').rglob('*.pyc')})"
    assert built.inside("closed", "python", "-c", flags) == "{3}\n"


def test_its_labels_are_the_matrix(built: Yard):
    labels = built.configuration("closed")["Labels"]
    arguments = built.arguments["cuda"]
    versions = {name: value for name, value in labels.items() if name.startswith("trainway.")}
    assert versions == {
        "trainway.versions": "pytorch-2.13",
        "trainway.variant": "cuda",
        "trainway.efa-installer": arguments["EFA_INSTALLER_VERSION"],
        "trainway.hyperpod-elastic-agent": "",
        "trainway.libfabric": arguments["LIBFABRIC_VERSION"],
        "trainway.aws-ofi-nccl": arguments["AWS_OFI_NCCL_VERSION"],
        "trainway.cuda": arguments["CUDA_VERSION"],
        "trainway.nccl": arguments["NCCL_VERSION"],
        "trainway.nccl-tests": arguments["NCCL_TESTS_VERSION"],
        "trainway.flash-attention": "",
        "trainway.gdrcopy": arguments["GDRCOPY_VERSION"],
        "trainway.nemo": "",
        "trainway.pytorch": arguments["PYTORCH_VERSION"],
        "trainway.transformer-engine": "",
        "trainway.ubuntu-snapshot": arguments["UBUNTU_SNAPSHOT"],
    }
    assert labels["org.opencontainers.image.revision"] == "closed"


def test_every_variable_that_the_dockerfile_explains_is_set_and_no_other(built: Yard):
    text = (ROOT / "container/Dockerfile").read_text()
    explained = set(re.findall(r"^# ([A-Z][A-Za-z_]+[A-Za-z])(?:  +\S|$)", text, re.MULTILINE))
    of_the_build = {"PATH", "DEBIAN_FRONTEND", "PIP_INDEX_URL"}
    variables = {each.partition("=")[0] for each in built.configuration("closed")["Env"]}
    assert variables - of_the_build == explained
