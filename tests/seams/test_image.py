"""The training image: its Dockerfile, the libraries that are opened in it, and the lists of its packages.

tests/container/image builds the whole image from the real Dockerfile. The readers here need seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.container import stand_ins
from tests.seams.seam import Planted, Seam
from tests.synthesis import ROOT
from trainway.spec.facts.versions import requirements_of
from trainway.spec.loader import load_versions

DOCKERFILE = ROOT / "container" / "Dockerfile"
REQUIREMENTS = ROOT / "container" / "requirements"
BIN = Path(sys.executable).parent
# The image's Python, and the platforms of the wheels that its pip takes.
PYTHON = load_versions().images[0].python
PLATFORMS = [f"--platform=manylinux_{glibc}_x86_64" for glibc in ("2_28", "2_17")] + ["--platform=manylinux2014_x86_64"]
LISTED = re.search(
    r"^nvidia-cuda-runtime==\S+",
    (REQUIREMENTS / requirements_of("pytorch", load_versions().pytorch[0].version)).read_text(encoding="utf-8"),
    re.MULTILINE,
)
assert LISTED, "PyTorch brings the CUDA runtime"
RUNTIME, OLD_RUNTIME = LISTED[0], "nvidia-cuda-runtime-cu12==12.9.79"
NEEDED = ("buildah", "gcc", "readelf", "unshare")


def missing() -> str | None:
    """Return why the readers do not run here, or None if they do."""
    if os.geteuid():
        return "buildah and unshare need root"
    absent = [program for program in NEEDED if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}; scripts/install_buildah installs them" if absent else None


def need_the_readers() -> None:
    """Skip the test where the readers do not run; continuous integration has them."""
    if (reason := missing()) and "CI" not in os.environ:
        pytest.skip(reason)


def said(command: Sequence[str], **environment: str) -> list[str]:
    """Return the lines that a reader prints, if it ends with a failure."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    return (done.stdout + done.stderr).strip().splitlines()[-5:] if done.returncode else []


def as_it_is(text: str) -> str:
    """Return the text unchanged."""
    return text


def hadolint(change: Callable[[str], str], directory: Path) -> list[str]:
    """Return what hadolint says of the Dockerfile after a change."""
    need_the_readers()
    file = directory / "Dockerfile"
    file.write_text(change(DOCKERFILE.read_text(encoding="utf-8")), encoding="utf-8")
    return said([str(BIN / "hadolint"), str(file)])


def buildah(change: Callable[[str], str], directory: Path) -> list[str]:
    """Return what buildah says of the Dockerfile after a change, when it builds the stage that downloads nccl-tests.

    buildah judges the instructions of the stages that it builds. tests/container/image builds all of them.
    """
    need_the_readers()
    file, site = directory / "Dockerfile", directory / "site"
    site.mkdir()
    (site / "nccl-tests.tar.gz").write_bytes(b"sources")
    file.write_text(change(DOCKERFILE.read_text(encoding="utf-8")), encoding="utf-8")
    store = ["--root", str(directory / "store"), "--runroot", str(directory / "run"), "--storage-driver", "vfs"]
    with stand_ins.served(site) as url:
        arguments = [f"--build-arg=NCCL_TESTS_URL={url}/nccl-tests.tar.gz", "--target=nccl-tests-source"]
        build = ["build", "--isolation", "chroot", "--pull-never", *arguments, "--file", str(file), str(site)]
        return said(["buildah", *store, *build])


def replaced(old: str, new: str) -> Callable[[str], str]:
    """Return a change that replaces a text that is there."""

    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


@cache
def wheels() -> Path:
    """Return a directory with NVIDIA's wheels of two CUDA runtimes, the image's and an older one, unpacked."""
    directory = Path(mkdtemp(prefix="wheels-"))
    for requirement in (RUNTIME, OLD_RUNTIME):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, *PLATFORMS, "--dest", str(directory), requirement], check=True, capture_output=True)
    for file in directory.glob("*.whl"):
        with zipfile.ZipFile(file) as wheel:
            wheel.extractall(directory / "site-packages")
    return directory / "site-packages"


# The loader's cache of this machine is hidden, because it may have a CUDA toolkit.
VERIFY = """\
mount --bind /dev/null /etc/ld.so.cache
exec "$0" -c '
import os, sys
from pathlib import Path
sys.path.insert(0, "container")
import verify_image as v
plugin, nccl = Path(sys.argv[1]), Path(sys.argv[2])
libfabric = v.linked(plugin, v.LIBFABRIC)
faults = v.link_faults(plugin) + v.open_faults(plugin, sys.argv[3])
faults += v.open_faults(libfabric, sys.argv[3]) if libfabric else []
print("\\n".join(faults + v.nccl_faults(nccl)))
' "$@"
"""


def libraries(
    directory: Path,
    *,
    runtime: str | None = "nvidia/cu13/lib/libcudart.so.13",
    linked: bool = True,
    plugin: str = "lib",
) -> list[str]:
    """Return what verify_image.py says of libraries that are laid out as in the image.

    `runtime` is the file of NVIDIA's wheels that the link libcudart.so leads to; without it there is no link. `linked`
    says whether a library that the plugin links to is there.
    """
    need_the_readers()
    opt, local = directory / "opt/amazon", directory / "usr/local/lib"
    local.mkdir(parents=True)
    if runtime:
        (local / "libcudart.so").symlink_to(wheels() / runtime)
    fabric, net = opt / "efa/lib/libfabric.so.1", opt / "ofi-nccl" / plugin / "libnccl-net-ofi.so"
    stand_ins.shared_library(fabric, "libfabric.so.1", source=stand_ins.LIBFABRIC)
    # A name that no machine has, so that the loader finds no other library of it.
    other = opt / "efa/lib/libtrainway-linked.so.1"
    stand_ins.shared_library(other, other.name)
    stand_ins.shared_library(net, "libnccl-net-ofi.so", fabric, other, source=stand_ins.PLUGIN)
    nccl = directory / "opt/nccl/lib/libnccl.so.2"
    stand_ins.shared_library(nccl, "libnccl.so.2")
    if not linked:
        other.unlink()
    path = ":".join(map(str, (opt / "ofi-nccl/lib", opt / "efa/lib", local)))
    command = ["unshare", "--mount", "bash", "-euc", VERIFY, sys.executable, str(net), str(nccl), "13.0"]
    done = subprocess.run(
        command, env={**os.environ, "LD_LIBRARY_PATH": path}, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip().splitlines()


AGENT = REQUIREMENTS / requirements_of("hyperpod-elastic-agent", load_versions().hyperpod_elastic_agent[0].version)


def pip(change: Callable[[str], str], directory: Path) -> list[str]:
    """Return what pip says of the list of HyperPod's agent after a change, when it downloads the wheels of the list."""
    text = AGENT.read_text(encoding="utf-8")
    # pip asks for a build where it downloads sources.
    wheels_only = re.sub(r"^hyperpod-elastic-agent==.*\n.*\n", "", text, flags=re.MULTILINE)
    file = directory / "requirements.txt"
    file.write_text(change(wheels_only), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    target = ["--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp", *PLATFORMS]
    return said([*command, *target, "--dest", str(directory / "wheels"), "--requirement", str(file)])


def hash_left_out(text: str) -> str:
    """Return the list without the checksum of its first package."""
    found = re.subn(r" \\\n    --hash=sha256:[0-9a-f]{64}\n(?=\S)", "\n", text, count=1)
    assert found[1] == 1
    return found[0]


SEAMS = (
    Seam(
        artifact="Dockerfile of the training image",
        rendered_by="container/Dockerfile",
        reader="hadolint, and buildah, which builds the whole image in tests/container/image",
        instead="BuildKit needs a daemon that no package registry has. buildah reads the same language.",
        planted=(
            Planted(
                "a package is installed without --yes",
                lambda directory: hadolint(as_it_is, directory),
                lambda directory: hadolint(replaced("apt-get install --yes", "apt-get install"), directory),
            ),
            Planted(
                "an instruction is misspelled",
                lambda directory: buildah(as_it_is, directory),
                lambda directory: buildah(replaced("\nADD ${NCCL_TESTS_URL}", "\nADDD ${NCCL_TESTS_URL}"), directory),
            ),
            Planted(
                "a stage begins with a stage that does not exist",
                lambda directory: buildah(as_it_is, directory),
                lambda directory: buildah(
                    replaced("FROM scratch AS nccl-tests-source", "FROM scartch AS nccl-tests-source"), directory
                ),
            ),
            Planted(
                "a download has an option that does not exist",
                lambda directory: buildah(as_it_is, directory),
                lambda directory: buildah(
                    replaced("ADD ${NCCL_TESTS_URL}", "ADD --checksun=sha256:0 ${NCCL_TESTS_URL}"), directory
                ),
            ),
        ),
    ),
    Seam(
        artifact="Libraries that NCCL's plugin and libfabric open in the training image",
        rendered_by="container/Dockerfile",
        reader="ld.so, on NVIDIA's wheel of the CUDA runtime, asked by container/verify_image.py",
        instead="AWS publishes aws-ofi-nccl and libfabric in its EFA installer only. Libraries that open the same "
        "names stand in for them; docs/image.md has what the real ones say.",
        planted=(
            Planted("the link libcudart.so is left out", libraries, lambda place: libraries(place, runtime=None)),
            Planted(
                "the link leads to another major version of CUDA",
                libraries,
                lambda place: libraries(place, runtime="nvidia/cuda_runtime/lib/libcudart.so.12"),
            ),
            Planted(
                "the link leads to a file that is not there",
                libraries,
                lambda place: libraries(place, runtime="nvidia/cu13/lib/libcudart.so.14"),
            ),
            Planted(
                "a library that the plugin links to is missing", libraries, lambda place: libraries(place, linked=False)
            ),
            Planted(
                "the plugin is in a directory that NCCL does not search",
                libraries,
                lambda place: libraries(place, plugin="plugins"),
            ),
        ),
    ),
    Seam(
        artifact="Lists of the image's packages",
        rendered_by="container/lock.py",
        reader="pip with --require-hashes, which downloads the wheels of an add-on",
        instead="",
        planted=(
            Planted(
                "a package has no checksum",
                lambda directory: pip(as_it_is, directory),
                lambda directory: pip(hash_left_out, directory),
            ),
            Planted(
                "a package has the checksum of another file",
                lambda directory: pip(as_it_is, directory),
                lambda directory: pip(lambda text: re.sub("sha256:.{8}", "sha256:00000000", text, count=1), directory),
            ),
        ),
    ),
)
