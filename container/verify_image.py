"""Asserts, while the image is built, that what is in it is what was asked for.

A build has neither an EFA device nor an accelerator, so this asks for what is there without one. For CUDA: that
libfabric has the efa provider, that NCCL's plugin and NCCL's tests are installed and find every library that they link
to, and that PyTorch carries the expected CUDA and NCCL. A mismatch would otherwise show only as a slow job, because
NCCL falls back to TCP without an error. For Neuron: the efa provider, and PyTorch's part for Neuron. For CPU: PyTorch.
"""

import argparse
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

PLUGIN = "libnccl-net-ofi.so"
PLUGIN_PREFIX = Path("/opt/amazon/ofi-nccl")
NCCL_TEST = Path("/opt/nccl-tests/bin/all_reduce_perf")
# Given by the host's driver when the container starts, so absent from every image.
FROM_THE_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")

Run = Callable[[Sequence[str]], str]


def run(command: Sequence[str]) -> str:
    """Returns the standard output of `command`, or nothing where it is not installed."""
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ""


def libfabric_faults(expected: str, run: Run = run) -> list[str]:
    """Returns what is wrong with the version of libfabric."""
    found = re.search(r"^libfabric: (\S+)", run(["fi_info", "--version"]), re.MULTILINE)
    if found and found[1] == expected:
        return []
    return [f"libfabric is {found[1] if found else 'unknown'}, expected {expected}"]


def provider_faults(run: Run = run) -> list[str]:
    """Returns a fault where `fi_info --list` has no efa provider."""
    if re.search(r"^efa:", run(["fi_info", "--list"]), re.MULTILINE):
        return []
    return ["libfabric has no efa provider"]


def link_faults(file: Path, run: Run = run) -> list[str]:
    """Returns the libraries that a program or a library links to and that are not found."""
    missing = re.findall(r"^\s*(\S+) => not found", run(["ldd", str(file)]), re.MULTILINE)
    return [f"{file} cannot find {library}" for library in missing if library not in FROM_THE_DRIVER]


def plugin_faults(expected: str, prefix: Path = PLUGIN_PREFIX, run: Run = run) -> list[str]:
    """Returns what is wrong with aws-ofi-nccl: its package's version, its file, or a library that it cannot find."""
    faults = []
    packages = run(["dpkg-query", "--show", "--showformat=${Package} ${Version}\n", "libnccl-ofi*"])
    versions = [line.split()[1].partition("-")[0] for line in packages.splitlines() if len(line.split()) == 2]
    if expected not in versions:
        faults.append(f"aws-ofi-nccl is {', '.join(versions) or 'not installed'}, expected {expected}")
    plugins = sorted(prefix.rglob(PLUGIN))
    if not plugins:
        faults.append(f"no {PLUGIN} below {prefix}")
    for plugin in plugins[:1]:
        faults += link_faults(plugin, run)
    return faults


def nccl_test_faults(test: Path = NCCL_TEST, run: Run = run) -> list[str]:
    """Returns what is wrong with NCCL's tests: that they are not there, or a library that one cannot find."""
    return link_faults(test, run) if test.exists() else [f"no {test}"]


def neuron_faults() -> list[str]:
    """Returns a fault where PyTorch's part for Neuron is not installed; it can be imported on such nodes only."""
    return [] if importlib.util.find_spec("torch_neuronx") else ["PyTorch has no torch_neuronx"]


def nccl_version() -> str:
    """Returns the version of the NCCL that PyTorch was built with."""
    import torch

    return ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]  # untyped in PyTorch 2.13


def pytorch_faults(expected: str) -> list[str]:
    """Returns what is wrong with the version of PyTorch."""
    import torch

    found = torch.__version__.partition("+")[0]
    return [] if found == expected else [f"PyTorch is {found}, expected {expected}"]


def cuda_faults(cuda: str, nccl: str) -> list[str]:
    """Returns what is wrong with the versions of CUDA and NCCL that PyTorch was built with."""
    import torch

    found = {
        "CUDA": (str(torch.version.cuda), cuda),
        "NCCL": ("none" if torch.version.cuda is None else nccl_version(), nccl),
    }
    return [f"{name} is {is_}, expected {want}" for name, (is_, want) in found.items() if is_ != want]


def package_faults(names: Sequence[str], expected: str) -> list[str]:
    """Returns which packages have another version."""
    faults = []
    for name in names:
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "not installed"
        if found != expected:
            faults.append(f"{name} is {found}, expected {expected}")
    return faults


def transformer_engine_faults(expected: str, cuda: str) -> list[str]:
    """Returns what is wrong with Transformer Engine and its parts; nothing where `expected` is empty."""
    core = f"transformer_engine_cu{cuda.partition('.')[0]}"
    parts = ("transformer_engine", core, "transformer_engine_torch")
    return package_faults(parts, expected) if expected else []


def nemo_faults(expected: str, run: Run = run) -> list[str]:
    """Returns what is wrong with NeMo AutoModel; nothing where `expected` is empty.

    Its command has to know its options, for which it imports its recipes' configuration, and no kernel.
    """
    if not expected:
        return []
    faults = package_faults(("nemo-automodel",), expected)
    if not faults and "usage: automodel" not in run(["automodel", "--help"]):
        faults.append("automodel does not start")
    return faults


def main() -> int:
    """Prints every fault and returns how the build should go on: 0, or 1 with at least one fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", choices=("cuda", "neuron", "cpu"))
    for option in ("--libfabric", "--aws-ofi-nccl", "--cuda", "--nccl", "--pytorch", "--transformer-engine", "--nemo"):
        parser.add_argument(option, required=True, metavar="VERSION", help="empty where the variant has none")
    wanted = parser.parse_args()
    if wanted.variant == "cuda":
        faults = [
            *libfabric_faults(wanted.libfabric),
            *provider_faults(),
            *plugin_faults(wanted.aws_ofi_nccl),
            *pytorch_faults(wanted.pytorch),
            *cuda_faults(wanted.cuda, wanted.nccl),
            *nccl_test_faults(),
            *transformer_engine_faults(wanted.transformer_engine, wanted.cuda),
            *nemo_faults(wanted.nemo),
        ]
    elif wanted.variant == "neuron":
        faults = [*provider_faults(), *neuron_faults()]
    else:
        faults = pytorch_faults(wanted.pytorch)
    for fault in faults:
        print(f"verify_image: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
