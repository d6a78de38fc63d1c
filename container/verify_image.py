"""Asserts, while the image is built, that the network stack in it is the one that was asked for.

A build has no EFA device, so this asks for what is there without one: that libfabric has the efa provider, that
NCCL's plugin is installed and every library it links to is found, and that PyTorch carries the expected CUDA and NCCL.
A mismatch would otherwise show only as a slow job, because NCCL falls back to TCP without an error.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

PLUGIN = "libnccl-net-ofi.so"
PLUGIN_PREFIX = Path("/opt/amazon/ofi-nccl")
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
    """Returns what is wrong with libfabric: its version, or no efa provider in `fi_info --list`."""
    faults = []
    found = re.search(r"^libfabric: (\S+)", run(["fi_info", "--version"]), re.MULTILINE)
    if found is None or found[1] != expected:
        faults.append(f"libfabric is {found[1] if found else 'unknown'}, expected {expected}")
    if not re.search(r"^efa:", run(["fi_info", "--list"]), re.MULTILINE):
        faults.append("libfabric has no efa provider")
    return faults


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
        missing = re.findall(r"^\s*(\S+) => not found", run(["ldd", str(plugin)]), re.MULTILINE)
        faults += [f"{plugin} cannot find {library}" for library in missing if library not in FROM_THE_DRIVER]
    return faults


def nccl_version() -> str:
    """Returns the version of the NCCL that PyTorch was built with."""
    import torch

    return ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]  # untyped in PyTorch 2.13


def pytorch_faults(pytorch: str, cuda: str, nccl: str) -> list[str]:
    """Returns what is wrong with PyTorch: its version, or the versions of CUDA and NCCL that it was built with."""
    import torch

    found = {
        "PyTorch": (torch.__version__.partition("+")[0], pytorch),
        "CUDA": (str(torch.version.cuda), cuda),
        "NCCL": ("none" if torch.version.cuda is None else nccl_version(), nccl),
    }
    return [f"{name} is {is_}, expected {want}" for name, (is_, want) in found.items() if is_ != want]


def main() -> int:
    """Prints every fault and returns how the build should go on: 0, or 1 with at least one fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--libfabric", "--aws-ofi-nccl", "--cuda", "--nccl", "--pytorch"):
        parser.add_argument(option, required=True, metavar="VERSION")
    wanted = parser.parse_args()
    faults = [
        *libfabric_faults(wanted.libfabric),
        *plugin_faults(wanted.aws_ofi_nccl),
        *pytorch_faults(wanted.pytorch, wanted.cuda, wanted.nccl),
    ]
    for fault in faults:
        print(f"verify_image: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
