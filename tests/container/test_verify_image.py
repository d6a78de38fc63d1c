"""The assertions that run while the image is built fail on the faults that would show only as a slow job."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[2] / "container" / "verify_image.py"
spec = importlib.util.spec_from_file_location("verify_image", SCRIPT)
assert spec is not None and spec.loader is not None
verify_image = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verify_image)

VERSION = "fi_info: 2.4.0amzn5.0\nlibfabric: 2.4.0amzn5.0\nlibfabric api: 2.4\n"


def answers(**by_command: str):
    """A `run` that answers by the command's name, with its first option where that matters."""

    def run(command: Sequence[str]) -> str:
        key = f"{command[0]} {command[1]}" if f"{command[0]} {command[1]}" in by_command else command[0]
        return by_command[key]

    return run


def test_libfabric_with_efa_is_fine():
    providers = "tcp:\n    version: 204.0\nefa:\n    version: 204.0\n"
    run = answers(**{"fi_info --version": VERSION, "fi_info --list": providers})
    assert verify_image.libfabric_faults("2.4.0amzn5.0", run) == []
    assert verify_image.provider_faults(run) == []


@pytest.mark.parametrize(
    ("version", "providers", "fault"),
    [
        (VERSION, "tcp:\n    version: 204.0\n", "libfabric has no efa provider"),
        (VERSION, "efa_shm:\n", "libfabric has no efa provider"),
        ("libfabric: 1.17.0\n", "efa:\n", "libfabric is 1.17.0, expected 2.4.0amzn5.0"),
        ("", "efa:\n", "libfabric is unknown"),
    ],
)
def test_libfabric_without_efa_or_of_another_version_is_a_fault(version: str, providers: str, fault: str):
    run = answers(**{"fi_info --version": version, "fi_info --list": providers})
    faults: list[str] = verify_image.libfabric_faults("2.4.0amzn5.0", run) + verify_image.provider_faults(run)
    [found] = faults
    assert fault in found


def test_the_plugin_is_fine_when_only_the_driver_is_missing(tmp_path: Path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libnccl-net-ofi.so").touch()
    links = "\tlibcuda.so.1 => not found\n\tlibc.so.6 => /lib/libc.so.6\n"
    run = answers(**{"dpkg-query": "libnccl-ofi 1.20.0-1\n", "ldd": links})
    assert verify_image.plugin_faults("1.20.0", tmp_path, run) == []


@pytest.mark.parametrize(
    ("packages", "present", "links", "fault"),
    [
        ("", True, "", "aws-ofi-nccl is not installed, expected 1.20.0"),
        ("libnccl-ofi 1.19.0-1\n", True, "", "aws-ofi-nccl is 1.19.0, expected 1.20.0"),
        ("libnccl-ofi 1.20.0-1\n", False, "", "no libnccl-net-ofi.so below"),
        ("libnccl-ofi 1.20.0-1\n", True, "\tlibfabric.so.1 => not found\n", "cannot find libfabric.so.1"),
    ],
)
def test_an_absent_or_unlinkable_plugin_is_a_fault(
    tmp_path: Path, packages: str, present: bool, links: str, fault: str
):
    if present:
        (tmp_path / "libnccl-net-ofi.so").touch()
    [found] = verify_image.plugin_faults("1.20.0", tmp_path, answers(**{"dpkg-query": packages, "ldd": links}))
    assert fault in found


def test_tools_that_are_not_installed_are_faults_and_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert len(verify_image.libfabric_faults("2.4.0amzn5.0")) == 1
    assert len(verify_image.provider_faults()) == 1
    assert len(verify_image.plugin_faults("1.20.0", tmp_path)) == 2


def test_a_pytorch_built_for_another_cuda_is_a_fault():
    assert verify_image.pytorch_faults(torch.__version__.partition("+")[0]) == []
    assert f"CUDA is {torch.version.cuda}, expected 1.0" in verify_image.cuda_faults("1.0", "0.0.0")


def test_a_pytorch_without_its_part_for_neuron_is_a_fault():
    assert verify_image.neuron_faults() == ["PyTorch has no torch_neuronx"]


def test_nccls_tests_are_there_and_find_what_they_link_to(tmp_path: Path):
    test = tmp_path / "all_reduce_perf"
    assert verify_image.nccl_test_faults(test) == [f"no {test}"]
    test.touch()
    run = answers(ldd="\tlibnccl.so.2 => not found\n\tlibcuda.so.1 => not found\n")
    assert verify_image.nccl_test_faults(test, run) == [f"{test} cannot find libnccl.so.2"]


def test_nemo_is_asserted_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch):
    assert verify_image.nemo_faults("") == []
    assert verify_image.nemo_faults("0.7.0") == ["nemo-automodel is not installed, expected 0.7.0"]
    monkeypatch.setattr(verify_image.importlib.metadata, "version", lambda _: "0.7.0")
    assert verify_image.nemo_faults("0.7.0", answers(automodel="usage: automodel [-h] <config.yaml>\n")) == []
    assert verify_image.nemo_faults("0.7.0", answers(automodel="")) == ["automodel does not start"]


def test_transformer_engine_is_asserted_where_it_was_asked_for():
    assert verify_image.transformer_engine_faults("", "13.0") == []
    assert verify_image.transformer_engine_faults("2.20.2", "13.0") == [
        "transformer_engine is not installed, expected 2.20.2",
        "transformer_engine_cu13 is not installed, expected 2.20.2",
        "transformer_engine_torch is not installed, expected 2.20.2",
    ]
