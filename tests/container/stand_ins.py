"""What a build of the training image downloads, made here and served on loopback, small and like the real things.

The EFA installer is a script that installs Debian packages with apt, whose libraries have the same names and link to
one another. NCCL's tests are made by make, and pip finds wheels of the same names and versions in an index.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import textwrap
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# The suite of the base image, and its Python.
SUITE, PYTHON = "bookworm", "3.11"
PACKAGES = "binutils,make,python3,python3-venv"
# Where scripts/install_nodes keeps the disk of the tests' nodes.
CACHE = Path(os.environ.get("TRAINWAY_NODES", "/var/cache/trainway"))
# What the base stage installs, as far as the base lacks it: nothing is compiled with these here.
RELEASE, COMPONENTS = "noble", ("main", "restricted", "universe", "multiverse")
INSTALLED = ("ca-certificates", "g++", "gcc", "libc6-dev", "openssh-client", "openssh-server", "python3-dev")

INSTALLER = """\
#!/bin/bash
set -euo pipefail
if [[ "$*" != "-y --skip-kmod --skip-limit-conf --no-verify --disable-ngc --disable-build-ngc" ]]; then
  echo "efa_installer: unexpected options $*"
  exit 2
fi
if dpkg-query --show efa-profile >/dev/null 2>&1 && [[ ! -e /etc/ld.so.conf.d/000_efa.conf ]]; then
  echo "efa_installer: dpkg knows efa-profile, and its file is not there"
  exit 1
fi
apt-get install --yes ./DEBS/*.deb
"""
FI_INFO = """\
#!/bin/sh
case "$1" in
  --version) printf 'fi_info: %s\\nlibfabric: %s\\nlibfabric api: 2.4\\n' LIBFABRIC LIBFABRIC ;;
  --list) printf 'tcp:\\n    version: 204.0\\nefa:\\n    version: 204.0\\n' ;;
esac
"""
# As nvcc takes its flags, and nccl-tests its settings; the linker alone, because the rest is not what is asked here.
NCCL_TESTS_MAKEFILE = """\
default:
\ttest "$(MPI)" = 1 && test "$(CUDARTLIB)" = cudart_static && test -f $(CUDA_HOME)/bin/nvcc
\tmkdir -p build
\tld -o build/all_reduce_perf -dynamic-linker /lib64/ld-linux-x86-64.so.2 all_reduce.o \\
\t  -L$(NCCL_HOME)/lib -lnccl -L$(MPI_HOME)/lib -lmpi $(subst -Xlinker,,$(NVCC_APPEND_FLAGS))
"""
GDRCOPY_MAKEFILE = """\
lib_install:
\tmkdir -p $(prefix)/lib
\tcp --no-dereference libgdrapi.so* $(prefix)/lib
"""
NCCL_TEST = """\
int ncclGetVersion(void);
int MPI_Init(void);
void _start(void) {
  long status = ncclGetVersion() + MPI_Init();
  __asm__("syscall" : : "a"(60), "D"(status));
}
"""
# It cannot be imported before what it requires is there, as the real one cannot.
TORCH = """\
import importlib.metadata
import nvidia.nccl
from types import SimpleNamespace
__version__ = importlib.metadata.version("torch")
version = SimpleNamespace(cuda="{cuda}")
cuda = SimpleNamespace(nccl=SimpleNamespace(version=lambda: {nccl}))
"""
# It is built as the real one is where its setup is not to fetch a wheel, and compiles nothing.
TRANSFORMER_ENGINE = """\
import os
from pathlib import Path
from setuptools import setup
import torch
assert os.environ["NVTE_PYTORCH_FORCE_BUILD"] == "TRUE"
memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
assert 1 <= int(os.environ["MAX_JOBS"]) <= min(os.cpu_count(), max(1, memory // 2**31))
assert Path(os.environ["CUDA_HOME"], "bin/nvcc").is_file()
assert all(Path(place).is_dir() for place in os.environ["CPLUS_INCLUDE_PATH"].split(":"))
setup(name="transformer_engine_torch", version="VERSION", py_modules=[])
"""
S3_CONNECTOR = """\
from setuptools import setup
setup(name="s3torchconnector", version="VERSION", py_modules=[], extras_require={"dcp": []})
"""
# With the requirement that its own metadata has (1.1.3).
AGENT = """\
from setuptools import setup
setup(
    name="hyperpod-elastic-agent",
    version="VERSION",
    py_modules=["hyperpod_elastic_agent"],
    install_requires=["torch>=2.4.0,<2.12.0"],
    entry_points={"console_scripts": ["hyperpodrun = hyperpod_elastic_agent:main"]},
)
"""
HYPERPODRUN = """\
def main():
    print("usage: hyperpodrun [-h] [--shutdown-signal {SIGTERM,SIGKILL}]")
"""
AUTOMODEL = """\
def main():
    print("usage: automodel [-h] <config.yaml>")
"""
TORCHRUN = """\
def main():
    print("usage: torchrun [-h] [--nnodes NNODES] training_script")
"""


def sha256(file: Path) -> str:
    """The checksum as a version matrix states it."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def base_system(directory: Path) -> None:
    """Write a minimal Debian with Python to a directory.

    The first run on a machine downloads it. It is kept beside the disk of the tests' nodes.
    """
    kept = CACHE / f"base-{hashlib.sha256(f'{SUITE} {PACKAGES}'.encode()).hexdigest()[:12]}.tar"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            made = kept.with_suffix(".part")
            command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "--format=tar"]
            subprocess.run([*command, SUITE, str(made)], check=True, capture_output=True)
            made.rename(kept)
    # Nodes for devices are the one thing that the base has no use for, and that not every machine may make.
    unpack = ["tar", "--extract", "--numeric-owner", "--xattrs", "--exclude=./dev/*", "--file", str(kept)]
    subprocess.run([*unpack, "--directory", str(directory)], check=True, capture_output=True)


# As the loading of aws-ofi-nccl 1.20.0 does: src/nccl_ofi_cuda.cpp, nccl_net_ofi_gpu_init.
PLUGIN = """\
#include <dlfcn.h>
#include <stdio.h>
int ncclOfiStart(void) {
  void *runtime = dlopen("libcudart.so", RTLD_NOW);
  if (!runtime) return printf("Failed to find CUDA Runtime library: %s\\n", dlerror());
  puts("on to the driver");
  return 0;
}
"""
# As libfabric 2.4.0 does: src/hmem_cuda.c, cuda_hmem_dl_init.
LIBFABRIC = """\
#include <dlfcn.h>
int cuda_hmem_dl_init(void) {
  if (!dlopen("libcudart.so", RTLD_NOW)) return -1;
  if (!dlopen("libcuda.so.1", RTLD_NOW)) return -2;
  return dlopen("libnvidia-ml.so.1", RTLD_NOW) ? 0 : -3;
}
"""
OTHERS = "int MPI_Init(void) { return 0; } int ncclGetVersion(void) { return 0; }"


def shared_library(file: Path, name: str, *needs: Path, source: str = OTHERS) -> None:
    """A library of a name that links to others."""
    file.parent.mkdir(parents=True, exist_ok=True)
    links = ["-Wl,--no-as-needed", *map(str, needs)]
    soname = f"-Wl,-soname,{name}"
    runtime = [] if "#include" in source else ["-nostdlib"]
    command = ["gcc", "-shared", "-fPIC", *runtime, "-x", "c", soname, "-o", str(file), "-", "-x", "none", *links]
    subprocess.run(command, input=source.encode(), check=True)


def package(place: Path, name: str, version: str, root: Path) -> str:
    """A Debian package of the files below `root`; returns what an index of packages says of it."""
    (root / "DEBIAN").mkdir(parents=True)
    fields = {"Package": name, "Version": version, "Architecture": "amd64", "Maintainer": "nobody", "Description": name}
    control = "".join(f"{key}: {value}\n" for key, value in fields.items())
    (root / "DEBIAN/control").write_text(control)
    file = place / f"{name}.deb"
    command = ["dpkg-deb", "--build", "--root-owner-group", "-Znone", str(root), str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return f"{control}Filename: {file.name}\nSize: {file.stat().st_size}\nSHA256: {sha256(file)}\n\n"


def apt_repository(place: Path, packages: Mapping[str, str]) -> None:
    """A repository of packages with nothing in them, by their names and versions."""
    place.mkdir(parents=True)
    index = "".join(package(place, name, version, place / "roots" / name) for name, version in packages.items())
    (place / "Packages").write_text(index)


def ubuntu_archive(place: Path, packages: Mapping[str, str]) -> bytes:
    """The same as Ubuntu's archive is laid out and signed; returns the public key."""
    apt_repository(place, packages)
    home = place / "signer"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-generate-key", "archive@example.org", "rsa2048"], check=True, capture_output=True)
    index = (place / "Packages").read_bytes()
    for suite in (RELEASE, f"{RELEASE}-updates", f"{RELEASE}-security"):
        lists = {f"{name}/binary-amd64/Packages": index if name == "main" else b"" for name in COMPONENTS}
        for path, content in lists.items():
            file = place / "dists" / suite / path
            file.parent.mkdir(parents=True)
            file.write_bytes(content)
        sums = "".join(f" {hashlib.sha256(text).hexdigest()} {len(text)} {path}\n" for path, text in lists.items())
        head = {"Suite": suite, "Codename": RELEASE, "Date": "Sat, 21 Nov 2026 00:00:00 UTC", "Architectures": "amd64"}
        # An archive of the past: its lists are valid no longer.
        head |= {"Components": " ".join(COMPONENTS), "Valid-Until": "Sun, 22 Nov 2026 00:00:00 UTC"}
        text = "".join(f"{key}: {value}\n" for key, value in head.items()) + f"SHA256:\n{sums}"
        signed = subprocess.run([*gpg, "--clearsign"], input=text.encode(), check=True, capture_output=True).stdout
        (place / "dists" / suite / "InRelease").write_bytes(signed)
    exported = subprocess.run([*gpg, "--export"], check=True, capture_output=True).stdout
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, capture_output=True)
    return exported


def efa_installer(archive: Path, work: Path, *, libfabric: str, aws_ofi_nccl: str) -> None:
    """An installer whose packages are as AWS's: libfabric with fi_info, the plugin that links to it, Open MPI."""
    prefix = "opt/amazon"
    library = work / "libfabric" / prefix / "efa/lib/libfabric.so.1"
    shared_library(library, "libfabric.so.1", source=LIBFABRIC)
    fi_info = work / "libfabric" / prefix / "efa/bin/fi_info"
    fi_info.parent.mkdir()
    fi_info.write_text(FI_INFO.replace("LIBFABRIC", libfabric))
    fi_info.chmod(0o755)
    plugin = work / "plugin" / prefix / "ofi-nccl/lib/libnccl-net-ofi.so"
    shared_library(plugin, "libnccl-net-ofi.so", library, source=PLUGIN)
    mpi = work / "mpi" / prefix / "openmpi/lib/libmpi.so"
    shared_library(mpi, "libmpi.so")
    installer = work / "aws-efa-installer"
    (installer / "DEBS").mkdir(parents=True)
    package(installer / "DEBS", "libfabric1-aws", libfabric, work / "libfabric")
    package(installer / "DEBS", "libnccl-ofi", f"{aws_ofi_nccl}-1", work / "plugin")
    package(installer / "DEBS", "openmpi40-aws", "4.1.7-1", work / "mpi")
    script = installer / "efa_installer.sh"
    script.write_text(INSTALLER)
    script.chmod(0o755)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(installer, installer.name)


def nccl_tests(archive: Path, work: Path) -> None:
    """The sources of one test, compiled already, in a directory as GitHub packs them."""
    root = work / "nccl-tests-2.17.6"
    root.mkdir()
    command = ["gcc", "-c", "-fPIC", "-fno-stack-protector", "-x", "c", "-o", str(root / "all_reduce.o"), "-"]
    subprocess.run(command, input=NCCL_TEST.encode(), check=True)
    (root / "Makefile").write_text(NCCL_TESTS_MAKEFILE)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(root, root.name)


def gdrcopy(archive: Path, work: Path) -> None:
    """The sources of GDRCopy's library, compiled already, in a directory as GitHub packs them."""
    root = work / "gdrcopy-2.5.1"
    shared_library(root / "libgdrapi.so.2.5", "libgdrapi.so.2")
    (root / "libgdrapi.so.2").symlink_to("libgdrapi.so.2.5")
    (root / "libgdrapi.so").symlink_to("libgdrapi.so.2")
    (root / "Makefile").write_text(GDRCOPY_MAKEFILE)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(root, root.name)


def wheel(index: Path, name: str, version: str, files: Mapping[str, str | bytes], metadata: str = "") -> Path:
    """A wheel for any Python in its place of the index; `metadata` has the lines besides name and version."""
    stem = f"{name.replace('-', '_')}-{version}"
    place = index / name.lower().replace("_", "-") / f"{stem}-py3-none-any.whl"
    place.parent.mkdir(parents=True, exist_ok=True)
    info = f"{stem}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    with zipfile.ZipFile(place, "w") as archive:
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            archive.writestr(path, data)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return place


def archive_of_sources(index: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """A package that is published as sources, in its place of the index."""
    stem = f"{name}-{version}"
    place = index / name.lower().replace("_", "-") / f"{stem}.tar.gz"
    place.parent.mkdir(parents=True, exist_ok=True)
    contents = {**files, "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
    with tarfile.open(place, "w:gz") as tar:
        for path, text in contents.items():
            entry = tarfile.TarInfo(f"{stem}/{path}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return place


def s3_connector(index: Path, version: str) -> Path:
    """The sources of S3's connector, which is published as nothing else."""
    project = '[build-system]\nrequires = ["setuptools", "build"]\nbuild-backend = "setuptools.build_meta"\n'
    setup = S3_CONNECTOR.replace("VERSION", version)
    return archive_of_sources(index, "s3torchconnector", version, {"setup.py": setup, "pyproject.toml": project})


def torch_wheel(index: Path, version: str, *, cuda: str, cudart: str, nccl: str) -> tuple[Path, list[Path]]:
    """PyTorch as far as the image is asserted to have it, and the NCCL, cuDNN and CUDA runtime that it requires.

    The CUDA runtime is NVIDIA's, at the version `cudart`, because the image's plugin opens it.
    """
    parts = tuple(int(part) for part in nccl.split("."))
    library = index.parent / "libnccl.so.2"
    shared_library(library, "libnccl.so.2")
    files = {"nvidia/nccl/lib/libnccl.so.2": library.read_bytes(), "nvidia/nccl/include/nccl.h": b""}
    cudnn = {"nvidia/cudnn/__init__.py": "", "nvidia/cudnn/include/cudnn.h": ""}
    required = [
        wheel(index, "nvidia-nccl-cu13", nccl, {"nvidia/nccl/__init__.py": b"", **files}),
        wheel(index, "nvidia-cudnn-cu13", "9.0", cudnn),
        *real_wheels(index, [f"nvidia-cuda-runtime=={cudart}"]),
    ]
    script = {f"torch-{version}.dist-info/entry_points.txt": "[console_scripts]\ntorchrun = torch_run:main\n"}
    source = {"torch/__init__.py": TORCH.format(cuda=cuda, nccl=parts), "torch_run.py": TORCHRUN}
    brought = {"nvidia-nccl-cu13": nccl, "nvidia-cudnn-cu13": "9.0", "nvidia-cuda-runtime": cudart}
    metadata = "".join(f"Requires-Dist: {name}=={each}\n" for name, each in brought.items())
    return wheel(index, "torch", version, {**source, **script}, metadata), required


def cuda_toolkit(index: Path, version: str, cudart: str) -> list[Path]:
    """NVIDIA's compiler, which compiles nothing here, in the directory of the CUDA runtime, which is NVIDIA's."""
    compiler = {"nvidia/cu13/bin/nvcc": "#!/bin/sh\n"}
    return [
        wheel(index, "nvidia-cuda-nvcc", version, compiler),
        *real_wheels(index, [f"nvidia-cuda-runtime=={cudart}"]),
    ]


def transformer_engine(index: Path, version: str) -> dict[str, str]:
    """Its package, its core and the sources of its part for PyTorch; returns the checksums as a matrix states them."""
    package = wheel(index, "transformer_engine", version, {"transformer_engine/__init__.py": ""})
    core = wheel(index, "transformer_engine_cu13", version, {}, "Requires-Dist: einops\n")
    files = {
        "setup.py": TRANSFORMER_ENGINE.replace("VERSION", version),
        "pyproject.toml": '[build-system]\nrequires = ["setuptools>=61.0", "pip", "torch>=2.1"]\n'
        'build-backend = "setuptools.build_meta:__legacy__"\n',
    }
    sources = archive_of_sources(index, "transformer_engine_torch", version, files)
    return {"sha256": sha256(package), "core_sha256": sha256(core), "torch_sha256": sha256(sources)}


def nemo(index: Path, version: str) -> list[Path]:
    """The command of NeMo AutoModel, which the image is asserted to have, and a package that it requires."""
    required = wheel(index, "transformers", "5.18.0", {"transformers/__init__.py": ""})
    entry_points = "[console_scripts]\nautomodel = nemo_automodel:main\n"
    files = {
        "nemo_automodel/__init__.py": AUTOMODEL,
        f"nemo_automodel-{version}.dist-info/entry_points.txt": entry_points,
    }
    return [wheel(index, "nemo-automodel", version, files, "Requires-Dist: transformers==5.18.0\n"), required]


def agent(index: Path, version: str) -> Path:
    """The sources of HyperPod's elastic agent, which is published as nothing else."""
    project = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    setup = AGENT.replace("VERSION", version)
    files = {"setup.py": setup, "pyproject.toml": project, "hyperpod_elastic_agent.py": HYPERPODRUN}
    return archive_of_sources(index, "hyperpod_elastic_agent", version, files)


def requirements(file: Path, archives: Sequence[Path]) -> None:
    """A list as container/lock.py writes it, of wheels and of sources."""
    lines = []
    for each in archives:
        name, version, *_ = each.name.removesuffix(".tar.gz").split("-")
        lines.append(f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{sha256(each)}\n")
    file.write_text("".join(lines))


def real_wheels(index: Path, wanted: Sequence[str]) -> list[Path]:
    """Published wheels, for the base's Python."""
    target = [
        "--only-binary=:all:",
        "--implementation=cp",
        f"--python-version={PYTHON}",
        "--platform=manylinux2014_x86_64",
    ]
    store = index.parent / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *target, "--dest", str(store), *wanted]
    subprocess.run(command, check=True, capture_output=True)
    places = []
    for file in store.iterdir():
        place = index / file.name.split("-")[0].lower().replace("_", "-")
        place.mkdir(parents=True, exist_ok=True)
        places.append(file.rename(place / file.name))
    store.rmdir()
    return places


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The directory's address on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def script(text: str) -> str:
    """A shell script from an indented literal."""
    return "#!/usr/bin/env bash\nset -euo pipefail\n" + textwrap.dedent(text)
