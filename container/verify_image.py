"""Verify, while the image is built, that the image contains what was asked for.

A build has neither an EFA device nor an accelerator, so the checks are those that need neither. For CUDA: libfabric has
the efa provider; aws-ofi-nccl and nccl-tests are installed; both find every library that they link to and every library
that they open at run time; PyTorch has the expected CUDA and NCCL. Without these checks a mistake shows only as a slow
job, because NCCL falls back to TCP without an error. For Neuron: the efa provider, and PyTorch's part for Neuron. For
CPU: PyTorch. For a base whose Python packages are kept: that PyTorch can be imported and, for CUDA, has CUDA; and which
NCCL, plugin, and libfabric a program of the base loads, whatever else the base has of that kind.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PLUGIN = "libnccl-net-ofi.so"
PLUGIN_PREFIX = Path("/opt/amazon/ofi-nccl")
EFA_PREFIX = Path("/opt/amazon/efa")
LIBFABRIC = "libfabric.so.1"
NCCL = Path("/opt/nccl/lib/libnccl.so.2")
NCCL_TEST = Path("/opt/nccl-tests/bin/all_reduce_perf")
# The host's driver brings these when the container starts, so no image contains them.
FROM_THE_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")
# As the last stage of container/Dockerfile has it.
USER = 1000
CUDA_RUNTIME = "libcudart.so"
# The names that aws-ofi-nccl and libfabric pass to dlopen, as constants in the file. The linker stores a constant that
# is the end of another one only once, so a name can follow other text.
OPENED = re.compile(rb"(?<![\w./+-])(lib[\w+-]+\.so(?:\.\d+)*)\0")
OPEN = """\
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
if hasattr(library, "cudaRuntimeGetVersion"):
    version = ctypes.c_int()
    library.cudaRuntimeGetVersion(ctypes.byref(version))
    print(f"CUDA {version.value // 1000}.{version.value % 1000 // 10}")
"""
# What a program has loaded after PyTorch, and after the plugin that NCCL opens: libraries by their paths.
LOADED = """\
import ctypes, sys
import torch
for name in sys.argv[1:]:
    ctypes.CDLL(name)
lines = [line.split() for line in open("/proc/self/maps")]
print(*sorted({line[5] for line in lines if len(line) == 6 and ".so" in line[5]}), sep="\\n")
"""
NCCL_VERSION = """\
import ctypes, sys
version = ctypes.c_int()
ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version))
number = version.value
print(number // 10000, number // 100 % 100, number % 100, sep=".")
"""
# The notes of aws-ofi-nccl's releases from 1.12.0 to 1.21.1 (read 2026-11-28).
OLDEST_NCCL = (2, 17, 1)
# Values with which a variable of the base leaves NCCL to EFA.
LEFT_TO_EFA = {
    "NCCL_NET": ("", "libfabric", "aws libfabric"),
    "NCCL_NET_PLUGIN": ("ofi",),
    "FI_PROVIDER": ("", "efa"),
}
OPTIONS = (
    "--libfabric",
    "--aws-ofi-nccl",
    "--cuda",
    "--nccl",
    "--pytorch",
    "--transformer-engine",
    "--nemo",
    "--flash-attention",
    "--hyperpod-elastic-agent",
)

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


def names_opened(library: Path) -> list[str]:
    """Return the names of libraries that the library opens with dlopen, as far as they are constants in its file.

    The libraries that it links to are among the names, because the file has their names as well.
    """
    return sorted({name.decode() for name in OPENED.findall(library.read_bytes())})


def search_path(opener: Path) -> str:
    """Return the LD_LIBRARY_PATH with which any program searches where dlopen does when the library `opener` calls it.

    The order is that of ld.so(8): the opener's RPATH if it has no RUNPATH, LD_LIBRARY_PATH, and the opener's RUNPATH.
    The loader's cache and the system's directories come after them in every program. Raises CalledProcessError if the
    opener is not an ELF file.
    """
    command = ["readelf", "--dynamic", "--wide", str(opener)]
    dynamic = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = dict(re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", dynamic))
    here = str(opener.resolve().parent)
    own = {kind: re.sub(r"\$ORIGIN|\$\{ORIGIN\}", here, path) for kind, path in paths.items()}
    before = "" if "RUNPATH" in own else own.get("RPATH", "")
    return ":".join(filter(None, [before, os.environ.get("LD_LIBRARY_PATH", ""), own.get("RUNPATH", "")]))


def opened(opener: Path, name: str) -> tuple[str, str]:
    """Open the library `name` as `opener` does at run time; return (what the library is, the loader's error).

    What the library is: its version of CUDA, such as "CUDA 13.0", for the CUDA runtime, and otherwise nothing. The
    error is empty if the library was opened.
    """
    environment = {**os.environ, "LD_LIBRARY_PATH": search_path(opener)}
    command = [sys.executable, "-c", OPEN, name]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    error = done.stderr.strip().rpartition("\n")[2].removeprefix("OSError: ")
    return done.stdout.strip(), error if done.returncode else ""


def linked(file: Path, name: str, run: Run = run) -> Path | None:
    """Return the file of a library that `file` links to, or None if it does not link to it or does not find it."""
    found = re.search(rf"^\s*{re.escape(name)} => (/\S+)", run(["ldd", str(file)]), re.MULTILINE)
    return Path(found[1]) if found else None


def open_faults(opener: Path, cuda: str) -> list[str]:
    """Return what is wrong with the CUDA runtime that aws-ofi-nccl or libfabric opens at run time.

    Both open `libcudart.so`, by this name. Without it aws-ofi-nccl ends with "Failed to find CUDA Runtime library", and
    libfabric has no support for the memory of GPUs. https://github.com/aws/aws-ofi-nccl/blob/v1.20.0/src/nccl_ofi_cuda.cpp
    https://github.com/ofiwg/libfabric/blob/v2.4.0/src/hmem_cuda.c (both read 2026-11-22)

    The driver's libraries are in no image. What else the two open is for devices that the image does not use, such as
    GDRCopy, or for accelerators of other vendors: both continue without.
    """
    faults = []
    for name in names_opened(opener):
        is_runtime = name.startswith(CUDA_RUNTIME)
        if not is_runtime and not (name in FROM_THE_DRIVER and driver_is_there()):
            continue
        what, error = opened(opener, name)
        if error:
            faults.append(f"{opener} opens {name} at run time and cannot: {error}")
        elif is_runtime and what != f"CUDA {cuda}":
            which = what or "no CUDA runtime"
            faults.append(f"{opener} opens {name} at run time, which is {which}, not CUDA {cuda}")
    return faults


def driver_is_there() -> bool:
    """Return whether NVIDIA's driver is loaded, as it is where the script runs on a node instead of in a build."""
    return Path("/proc/driver/nvidia/version").exists()


def nccl_faults(nccl: Path = NCCL) -> list[str]:
    """Return a fault if NCCL cannot open its plugin by name, as it does when NCCL_NET_PLUGIN selects it.

    Return nothing if there is no NCCL: nccl-tests link to it, so `nccl_test_faults` reports that.
    """
    if not nccl.exists():
        return []
    _, error = opened(nccl, PLUGIN)
    return [f"NCCL cannot open {PLUGIN}: {error}"] if error else []


def plugin_faults(expected: str, cuda: str, prefix: Path = PLUGIN_PREFIX, run: Run = run) -> list[str]:
    """Return what is wrong with aws-ofi-nccl: its package's version, its file, or a library that it cannot find.

    `cuda` is the version of CUDA, such as "13.0", whose runtime the plugin and libfabric have to open.
    """
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
        libfabric = linked(plugin, LIBFABRIC, run)
        for opener in filter(None, (plugin, libfabric)):
            faults += open_faults(opener, cuda)
    return faults or nccl_faults()


def nccl_test_faults(test: Path = NCCL_TEST, run: Run = run) -> list[str]:
    """Returns what is wrong with NCCL's tests: that they are not there, or a library that one cannot find."""
    return link_faults(test, run) if test.exists() else [f"no {test}"]


def neuron_faults() -> list[str]:
    """Returns a fault where PyTorch's part for Neuron is not installed; it can be imported on such nodes only."""
    return [] if importlib.util.find_spec("torch_neuronx") else ["PyTorch has no torch_neuronx"]


def kept_faults(wanted: argparse.Namespace, run: Run = run) -> list[str]:
    """Return what is wrong with a base image whose Python packages are kept."""
    try:
        import torch
    except ImportError as error:
        return [f"the PyTorch of the base image cannot be imported: {error}"]
    if wanted.variant != "cuda":
        return []
    if not torch.version.cuda:
        return [f"the PyTorch of the base image, {torch.__version__}, has no CUDA"]
    faults = [*libfabric_faults(wanted.libfabric, run), *provider_faults(run)]
    faults += plugin_faults(wanted.aws_ofi_nccl, torch.version.cuda, run=run)
    return [*faults, *variable_faults(os.environ), *([] if faults else loaded_faults())]


def variable_faults(environment: Mapping[str, str]) -> list[str]:
    """Return the variables of the image that keep NCCL from EFA."""
    return [
        f"the image sets {name}={environment[name]}, with which NCCL does not use EFA"
        for name, harmless in LEFT_TO_EFA.items()
        if environment.get(name, harmless[0]).lower() not in harmless
    ]


def loaded_faults(prefix: Path = PLUGIN_PREFIX, efa: Path = EFA_PREFIX) -> list[str]:
    """Return what is wrong with the libraries that a program of the base loads, and print which they are.

    The program imports PyTorch, which loads NCCL, and NCCL opens its plugin, which loads libfabric. A base can have
    several of each: in HPC-X, in UCX, and of an EFA installer of its own.
    """
    before, error = loaded()
    nccl = next((each for each in before if each.name.startswith("libnccl.so")), None)
    if nccl is None:
        return [f"the PyTorch of the base image loads no NCCL{error}"]
    after, error = loaded(PLUGIN, path=search_path(nccl))
    if error:
        return [f"NCCL cannot open {PLUGIN}{error}"]
    faults = []
    for what, name, place in (("plugin for NCCL", PLUGIN, prefix), ("libfabric", LIBFABRIC, efa)):
        found = [each for each in after if each.name.startswith(name.partition(".")[0])]
        print(f"verify_image: a program loads the {what} {', '.join(map(str, found))}")
        faults += [
            f"a program loads {each}, and not the {what} in {place}" for each in found if place not in each.parents
        ]
        faults += [] if found else [f"a program loads no {what}"]
    version = run([sys.executable, "-c", NCCL_VERSION, str(nccl)]).strip()
    print(f"verify_image: a program loads NCCL {version} in {nccl}")
    if not version or tuple(map(int, version.split("."))) < OLDEST_NCCL:
        oldest = ".".join(map(str, OLDEST_NCCL))
        faults.append(f"NCCL is {version or 'of no known version'}, and the plugin supports {oldest} and newer")
    return faults


def loaded(*names: str, path: str | None = None) -> tuple[list[Path], str]:
    """Return the libraries of a program that imports PyTorch and opens others, and the error of opening them."""
    environment = {**os.environ, **({} if path is None else {"LD_LIBRARY_PATH": path})}
    command = [sys.executable, "-c", LOADED, *names]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    error = done.stderr.strip().rpartition("\n")[2].removeprefix("OSError: ")
    return [Path(line) for line in done.stdout.splitlines()], f": {error}" if done.returncode else ""


def nccl_version() -> str:
    """Returns the version of the NCCL that PyTorch loads."""
    import torch

    return ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]  # untyped in PyTorch 2.13


def pytorch_faults(expected: str) -> list[str]:
    """Returns what is wrong with the version of PyTorch."""
    import torch

    found = torch.__version__.partition("+")[0]
    return [] if found == expected else [f"PyTorch is {found}, expected {expected}"]


def cuda_faults(cuda: str, nccl: str) -> list[str]:
    """Returns what is wrong with the CUDA that PyTorch was built with, and with the NCCL that it loads."""
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


def flash_attention_faults(expected: str) -> list[str]:
    """Return what is wrong with FlashAttention; nothing if `expected` is empty."""
    return package_faults(("flash-attn-4",), expected) if expected else []


def agent_faults(expected: str, run: Run = run) -> list[str]:
    """Return what is wrong with HyperPod's elastic agent; nothing where `expected` is empty.

    Its command has to know its options. With a PyTorch that is too new for the agent it does not start, because
    torchrun has an option of the same name.
    """
    if not expected:
        return []
    faults = package_faults(("hyperpod-elastic-agent",), expected)
    if not faults and "--shutdown-signal" not in run(["hyperpodrun", "--help"]):
        faults.append("hyperpodrun does not start")
    return faults


def added_faults(layout: str, nccl: str, run: Run = run) -> list[str]:
    """Return what somebody's additions broke: packages that do not fit together, torchrun, or the user of the job.

    The packages of the Neuron SDK, and of another base that keeps its own, need not be consistent.
    """
    theirs = layout in ("neuron", "kept")
    checked = "" if theirs else run([sys.executable, "-m", "pip", "check"])
    # A combination can replace PyTorch's NCCL. Nothing but PyTorch requires one by its exact version.
    replaced = re.compile(
        rf"torch \S+ has requirement nvidia-nccl-cu\d+==\S+;? ?.*, but you have nvidia-nccl-cu\d+ {re.escape(nccl)}\."
    )
    lines = [line for line in checked.splitlines() if not replaced.fullmatch(line)]
    faults = [f"pip check: {line}" for line in lines if line != "No broken requirements found."]
    if not theirs and not checked:
        faults.append("pip check does not start")
    if "torchrun" not in run(["torchrun", "--help"]):
        faults.append("torchrun does not start")
    if not any(user.pw_uid == USER for user in pwd.getpwall()):
        faults.append(f"there is no user {USER}, as which jobs run")
    return faults


def main() -> int:
    """Prints every fault and returns how the build should continue: 0, or 1 with at least one fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", choices=("cuda", "neuron", "cpu"))
    parser.add_argument(
        "--layout", required=True, choices=("cuda", "neuron", "cpu", "kept"), help="see container/Dockerfile"
    )
    for option in OPTIONS:
        parser.add_argument(option, required=True, metavar="VERSION", help="empty where the variant has none")
    parser.add_argument("--added", action="store_true", help="also check what additions to the image can break")
    wanted = parser.parse_args()
    if wanted.layout == "kept":
        faults = kept_faults(wanted)
    elif wanted.variant == "cuda":
        faults = [
            *libfabric_faults(wanted.libfabric),
            *provider_faults(),
            *plugin_faults(wanted.aws_ofi_nccl, wanted.cuda),
            *pytorch_faults(wanted.pytorch),
            *cuda_faults(wanted.cuda, wanted.nccl),
            *nccl_test_faults(),
            *transformer_engine_faults(wanted.transformer_engine, wanted.cuda),
            *nemo_faults(wanted.nemo),
            *flash_attention_faults(wanted.flash_attention),
        ]
    elif wanted.variant == "neuron":
        faults = [*provider_faults(), *neuron_faults()]
    else:
        faults = pytorch_faults(wanted.pytorch)
    faults += agent_faults(wanted.hyperpod_elastic_agent)
    faults += added_faults(wanted.layout, wanted.nccl) if wanted.added else []
    for fault in faults:
        print(f"verify_image: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
