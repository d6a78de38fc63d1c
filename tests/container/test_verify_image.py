"""The assertions that run while the image is built fail on the faults that would show only as a slow job."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

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
    assert verify_image.plugin_faults("1.20.0", "13.0", tmp_path, run) == []


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
    [found] = verify_image.plugin_faults("1.20.0", "13.0", tmp_path, answers(**{"dpkg-query": packages, "ldd": links}))
    assert fault in found


def test_tools_that_are_not_installed_are_faults_and_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert len(verify_image.libfabric_faults("2.4.0amzn5.0")) == 1
    assert len(verify_image.provider_faults()) == 1
    assert len(verify_image.plugin_faults("1.20.0", "13.0", tmp_path)) == 2


def test_a_pytorch_built_for_another_cuda_is_a_fault():
    import torch

    assert verify_image.pytorch_faults(torch.__version__.partition("+")[0]) == []
    assert f"CUDA is {torch.version.cuda}, expected 1.0" in verify_image.cuda_faults("1.0", "0.0.0")


def test_a_pytorch_without_its_part_for_neuron_is_a_fault():
    assert verify_image.neuron_faults() == ["PyTorch has no torch_neuronx"]


KEPT = {"libfabric": "2.4.0amzn5.0", "aws_ofi_nccl": "1.20.0"}


def test_a_base_that_stays_needs_pytorch_with_cuda_and_all_of_efa(monkeypatch: pytest.MonkeyPatch):
    import torch

    cuda, cpu = (SimpleNamespace(variant=variant, **KEPT) for variant in ("cuda", "cpu"))
    monkeypatch.setattr(torch.version, "cuda", None)
    lacks = [f"the PyTorch of the base image, {torch.__version__}, has no CUDA"]
    assert verify_image.kept_faults(cuda, lambda _: "") == lacks
    assert verify_image.kept_faults(cpu) == []
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setenv("NCCL_NET_PLUGIN", "spcx")
    assert verify_image.kept_faults(cuda, lambda _: "") == [
        "libfabric is unknown, expected 2.4.0amzn5.0",
        "libfabric has no efa provider",
        "aws-ofi-nccl is not installed, expected 1.20.0",
        f"no libnccl-net-ofi.so below {verify_image.PLUGIN_PREFIX}",
        "the image sets NCCL_NET_PLUGIN=spcx, with which NCCL does not use EFA",
    ]
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "cannot be imported" in verify_image.kept_faults(cpu)[0]


@pytest.mark.parametrize(
    ("environment", "wrong"),
    [
        ({}, []),
        ({"NCCL_NET": "Libfabric", "NCCL_NET_PLUGIN": "ofi", "FI_PROVIDER": "efa"}, []),
        ({"NCCL_NET": "IB", "FI_PROVIDER": "tcp"}, ["NCCL_NET=IB", "FI_PROVIDER=tcp"]),
    ],
)
def test_a_variable_that_keeps_nccl_from_efa_is_a_fault(environment: dict[str, str], wrong: list[str]):
    faults = verify_image.variable_faults(environment)
    assert faults == [f"the image sets {each}, with which NCCL does not use EFA" for each in wrong]


with_a_compiler = pytest.mark.skipif(
    shutil.which("gcc") is None and "CI" not in os.environ,
    reason="not installed: gcc; scripts/install_buildah installs it",
)
DLOPEN = '#include <dlfcn.h>\nvoid *start(void) { return dlopen("%s", RTLD_NOW); }\n'
MERGED = (
    '#include <dlfcn.h>\nconst char *says = "Could not load %s"; void *start(void) { return dlopen("%s", RTLD_NOW); }\n'
)
RUNTIME = "int cudaRuntimeGetVersion(int *version) { *version = %d; return 0; }\n"


def library(file: Path, source: str, *flags: str) -> Path:
    """A shared library of a C source."""
    file.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", str(file), *flags]
    subprocess.run(command, input=source.encode(), check=True)
    return file


@with_a_compiler
@pytest.mark.parametrize("source", [DLOPEN % "libcudart.so", MERGED % ("libcudart.so", "libcudart.so")])
def test_what_a_library_opens_is_read_from_its_file(tmp_path: Path, source: str):
    assert "libcudart.so" in verify_image.names_opened(library(tmp_path / "libplugin.so", source))


@with_a_compiler
def test_a_name_in_a_message_is_not_what_a_library_opens(tmp_path: Path):
    source = 'const char *says = "Failed to open libcudart.so, so NCCL uses TCP";\n'
    assert "libcudart.so" not in verify_image.names_opened(library(tmp_path / "libplugin.so", source))


@with_a_compiler
@pytest.mark.parametrize(
    ("flags", "place", "variable"),
    [
        (["-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/cuda"], "cuda", None),
        (["-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/cuda"], "cuda", None),
        ([], "elsewhere", "elsewhere"),
    ],
    ids=["RPATH", "RUNPATH", "LD_LIBRARY_PATH"],
)
def test_a_library_is_searched_where_its_opener_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], place: str, variable: str | None
):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / variable) if variable else "")
    opener = library(tmp_path / "libplugin.so", DLOPEN % "libcudart.so.99", *flags)
    [missing] = verify_image.open_faults(opener, "13.0")
    assert "cannot: libcudart.so.99: cannot open shared object file" in missing
    library(tmp_path / place / "libcudart.so.99", RUNTIME % 13000)
    assert verify_image.open_faults(opener, "13.0") == []


@with_a_compiler
@pytest.mark.parametrize(("new", "found"), [(True, "12.9"), (False, "13.0")], ids=["RUNPATH", "RPATH"])
def test_the_variable_comes_before_runpath_and_after_rpath(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: bool, found: str
):
    """ld.so(8)."""
    flags = [f"-Wl,--{'enable' if new else 'disable'}-new-dtags", f"-Wl,-rpath,{tmp_path / 'own'}"]
    opener = library(tmp_path / "libplugin.so", DLOPEN % "libcudart.so.99", *flags)
    library(tmp_path / "own/libcudart.so.99", RUNTIME % 13000)
    library(tmp_path / "variable/libcudart.so.99", RUNTIME % 12090)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "variable"))
    assert verify_image.opened(opener, "libcudart.so.99") == (f"CUDA {found}", "")


@with_a_compiler
def test_another_cuda_and_a_library_that_is_no_cuda_runtime_are_faults(tmp_path: Path):
    opener = library(tmp_path / "libplugin.so", DLOPEN % "libcudart.so.99", f"-Wl,-rpath,{tmp_path}")
    for source, says in {RUNTIME % 12090: "which is CUDA 12.9", "int other;\n": "which is no CUDA runtime"}.items():
        library(tmp_path / "libcudart.so.99", source)
        [fault] = verify_image.open_faults(opener, "13.0")
        assert f"{says}, not CUDA 13.0" in fault


@with_a_compiler
def test_the_drivers_libraries_are_asked_for_where_there_is_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opener = library(tmp_path / "libfabric.so.1", DLOPEN % "libcuda.so.1")
    monkeypatch.setattr(verify_image, "driver_is_there", lambda: False)
    assert verify_image.open_faults(opener, "13.0") == []
    monkeypatch.setattr(verify_image, "driver_is_there", lambda: True)
    monkeypatch.setattr(verify_image, "opened", lambda _, name: ("", f"{name}: cannot open shared object file"))
    [fault] = verify_image.open_faults(opener, "13.0")
    assert "opens libcuda.so.1 at run time and cannot" in fault


@with_a_compiler
def test_what_a_program_loads_is_that_of_efa(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A stand-in of PyTorch that loads an NCCL, and two plugins of one name, each with a libfabric of its own."""
    (tmp_path / "torch.py").write_text("import ctypes\nctypes.CDLL('libnccl.so.2')\n")
    library(tmp_path / "base/libnccl.so.2", "int ncclGetVersion(int *v) { *v = 22903; return 0; }\n")
    for each in ("efa", "hpcx"):
        fabric = library(tmp_path / each / "libfabric.so.1", "int fabric;\n", "-Wl,-soname,libfabric.so.1")
        needs = ["-Wl,--no-as-needed", str(fabric), f"-Wl,-rpath,{fabric.parent}"]
        library(tmp_path / each / "libnccl-net-ofi.so", "int plugin;\n", "-x", "none", *needs)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    efa, hpcx, base = (str(tmp_path / each) for each in ("efa", "hpcx", "base"))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{efa}:{hpcx}:{base}")
    assert verify_image.loaded_faults(Path(efa), Path(efa)) == []
    assert f"a program loads NCCL 2.29.3 in {base}/libnccl.so.2" in capsys.readouterr().out
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{hpcx}:{efa}:{base}")
    assert verify_image.loaded_faults(Path(efa), Path(efa)) == [
        f"a program loads {hpcx}/libnccl-net-ofi.so, and not the plugin for NCCL in {efa}",
        f"a program loads {hpcx}/libfabric.so.1, and not the libfabric in {efa}",
    ]
    library(tmp_path / "base/libnccl.so.2", "int ncclGetVersion(int *v) { *v = 21602; return 0; }\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{efa}:{base}")
    assert verify_image.loaded_faults(Path(efa), Path(efa)) == [
        "NCCL is 2.16.2, and the plugin supports 2.17.1 and newer"
    ]
    monkeypatch.setenv("LD_LIBRARY_PATH", base)
    [fault] = verify_image.loaded_faults(Path(efa), Path(efa))
    assert fault.startswith("NCCL cannot open libnccl-net-ofi.so: ")
    (tmp_path / "torch.py").write_text("")
    assert verify_image.loaded_faults(Path(efa), Path(efa)) == ["the PyTorch of the base image loads no NCCL"]


@with_a_compiler
def test_nccl_has_to_find_its_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "plugin"))
    nccl = library(tmp_path / "libnccl.so.2", "int nccl;\n")
    [fault] = verify_image.nccl_faults(nccl)
    assert fault.startswith("NCCL cannot open libnccl-net-ofi.so: ")
    library(tmp_path / "plugin/libnccl-net-ofi.so", "int plugin;\n")
    assert verify_image.nccl_faults(nccl) == []
    assert verify_image.nccl_faults(tmp_path / "none") == []


def test_nccls_tests_are_there_and_find_what_they_link_to(tmp_path: Path):
    test = tmp_path / "all_reduce_perf"
    assert verify_image.nccl_test_faults(test) == [f"no {test}"]
    test.touch()
    run = answers(ldd="\tlibnccl.so.2 => not found\n\tlibcuda.so.1 => not found\n")
    assert verify_image.nccl_test_faults(test, run) == [f"{test} cannot find libnccl.so.2"]


def test_flash_attention_is_asserted_if_it_was_asked_for():
    assert verify_image.flash_attention_faults("") == []
    missing = ["flash-attn-4 is not installed, expected 4.0.0b36"]
    assert verify_image.flash_attention_faults("4.0.0b36") == missing


def test_nemo_is_asserted_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch):
    assert verify_image.nemo_faults("") == []
    assert verify_image.nemo_faults("0.7.0") == ["nemo-automodel is not installed, expected 0.7.0"]
    monkeypatch.setattr(verify_image.importlib.metadata, "version", lambda _: "0.7.0")
    assert verify_image.nemo_faults("0.7.0", answers(automodel="usage: automodel [-h] <config.yaml>\n")) == []
    assert verify_image.nemo_faults("0.7.0", answers(automodel="")) == ["automodel does not start"]


def test_hyperpods_agent_has_to_start_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch):
    assert verify_image.agent_faults("") == []
    assert verify_image.agent_faults("1.1.3") == ["hyperpod-elastic-agent is not installed, expected 1.1.3"]
    monkeypatch.setattr(verify_image.importlib.metadata, "version", lambda _: "1.1.3")
    usage = "usage: hyperpodrun [-h] [--shutdown-signal {SIGTERM,SIGKILL}]\n"
    assert verify_image.agent_faults("1.1.3", answers(hyperpodrun=usage)) == []
    assert verify_image.agent_faults("1.1.3", answers(hyperpodrun="")) == ["hyperpodrun does not start"]


def test_what_an_addition_breaks_is_a_fault(monkeypatch: pytest.MonkeyPatch):
    user = SimpleNamespace(pw_uid=verify_image.USER)
    monkeypatch.setattr(verify_image.pwd, "getpwall", lambda: [user])
    whole = {sys.executable: "No broken requirements found.\n", "torchrun": "usage: torchrun [-h] training_script\n"}
    assert verify_image.added_faults("cpu", "2.31.2", answers(**whole)) == []
    unfit = "torch 2.13.0 has requirement numpy==2.4.6, but you have numpy 1.26.4."
    broken = answers(**{sys.executable: f"{unfit}\n", "torchrun": ""})
    assert verify_image.added_faults("cpu", "2.31.2", broken) == [f"pip check: {unfit}", "torchrun does not start"]
    # A combination can have another NCCL than PyTorch requires. No other one is in its image.
    nccl = "torch 2.15.0 has requirement nvidia-nccl-cu13==2.30.7; os, but you have nvidia-nccl-cu13"
    replaced = answers(**whole | {sys.executable: f"{nccl} 2.31.2.\n"})
    assert verify_image.added_faults("cuda", "2.31.2", replaced) == []
    assert verify_image.added_faults("cuda", "2.32.3", replaced) == [f"pip check: {nccl} 2.31.2."]
    # Such a base keeps its packages, which need not be consistent.
    assert verify_image.added_faults("kept", "2.31.2", broken) == ["torchrun does not start"]
    assert verify_image.added_faults("cpu", "2.31.2", answers(**whole | {sys.executable: ""})) == [
        "pip check does not start"
    ]
    user.pw_uid += 1
    assert verify_image.added_faults("cpu", "2.31.2", answers(**whole)) == [
        f"there is no user {verify_image.USER}, as which jobs run"
    ]


def test_transformer_engine_is_asserted_where_it_was_asked_for():
    assert verify_image.transformer_engine_faults("", "13.0") == []
    assert verify_image.transformer_engine_faults("2.20.2", "13.0") == [
        "transformer_engine is not installed, expected 2.20.2",
        "transformer_engine_cu13 is not installed, expected 2.20.2",
        "transformer_engine_torch is not installed, expected 2.20.2",
    ]
