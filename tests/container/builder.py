"""The delivery's scripts build images here: buildah in place of BuildKit, a directory in place of ECR and S3."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.container import stand_ins

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
BASES, IMAGES = "atlas/mirror/training-base", "atlas/training"
ISOLATION = ("--isolation", "chroot")
# A build writes thousands of small files. In memory, a build took a quarter less CPU time than on ext4 (2026-11-28).
MEMORY = Path("/dev/shm")
MEMORY_FOR_IMAGES = 8 * 2**30

# An image is in ECR if a file of its tag has its digest. The value of a secret is the file `secret`.
AWS = """\
case "$1 $2" in
  "ecr describe-images")
    [[ -e "$ECR/$4/${6#imageTag=}" ]] && cat "$ECR/$4/${6#imageTag=}" && exit
    echo "An error occurred (ImageNotFoundException)" >&2 && exit 254 ;;
  "ecr get-login-password") echo token ;;
  "s3 cp") mkdir -p "$ECR/bills" && cp "$3" "$ECR/bills/${4##*/}" ;;
  "secretsmanager get-secret-value") cat "$HOME/secret" ;;
esac
"""
# buildah gets the words of buildx, less those that only buildx knows. Only a registry finds an image by its digest,
# so buildah gets the image's tag. INSTEAD is a build context that the test adds.
DOCKER = """\
[[ "$1" != login ]] || { cat >/dev/null; exit; }
[[ "$1" != info && "$1" != logout ]] || exit 0
shift 2
words=()
for word in "$@"; do
  case "$word" in
    --provenance=* | --output | type=image,* | --progress=* | --metadata-file | */metadata.json) ;;
    type=local,*) words+=(--output "$word") ;;
    *@sha256:*)
      repository=${word%@*}
      found=$(grep --files-with-matches "${word##*@}" "$ECR/${repository#*amazonaws.com/}"/* | head -n 1)
      words+=("$repository:${found##*/}") ;;
    *) words+=("$word") ;;
  esac
done
[[ -z "${INSTEAD:-}" ]] || words=(--build-context "$INSTEAD" "${words[@]}")
# OCI's own format has no SHELL.
buildah build --isolation chroot --layers="${LAYERS:-true}" --format docker "${words[@]}"
# A build leaves ten containers with mounts. Each later command of buildah reads the list of all mounts many times.
buildah rm --all >/dev/null
while (($#)); do
  [[ "$1" != --tag ]] || name=$2
  shift
done
[[ -n "${name:-}" ]] || exit 0
repository=${name%:*}
mkdir -p "$ECR/${repository#*/}"
buildah inspect --type image --format '{{.FromImageDigest}}' "$name" >"$ECR/${repository#*/}/${name##*:}"
"""


@dataclass(frozen=True)
class Builder:
    """A copy of what the delivery's scripts build from, and a store of images.

    `settings` are environment variables that every stage gets.
    """

    root: Path
    settings: Mapping[str, str]

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of a stage."""
        return {
            "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.root),
            "CONTAINERS_STORAGE_CONF": str(self.root / "storage.conf"),
            # buildah keeps the caches of RUN here.
            "TMPDIR": str(self.root / "caches"),
            # Go collects garbage only above 512 MiB. Without collections, a build of six steps took 20 % less CPU time.
            "GOGC": "off",
            "GOMEMLIMIT": "512MiB",
            "ECR": str(self.root / "ecr"),
            "AWS_REGION": "us-west-2",
            "MIRROR_REGISTRY": REGISTRY,
            "MIRROR_PREFIX": "atlas/mirror",
            "IMAGE_REPOSITORY": f"{REGISTRY}/{IMAGES}",
            "BILLS_URI": "s3://bucket/delivery/bills",
            **self.settings,
            **variables,
        }

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        environment = self.environment(**variables)
        return subprocess.run(words, env=environment, cwd=self.root, capture_output=True, text=True, timeout=600)

    def must(self, *words: str, **variables: str) -> str:
        """Return what a command prints. Raises AssertionError with all of it if the command fails."""
        done = self.run(*words, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write_arguments(self, arguments: Mapping[str, str]) -> None:
        """Write the arguments of the build, as the deploy does."""
        (self.root / "image.json").write_text(json.dumps(arguments))

    def run_in(self, image: str, *words: str, data: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in an image, as the user and in the environment that the image has; `data` is /data there."""
        mounted = ["--volume", f"{data}:/data"] if data else []
        container = self.must("buildah", "from", "--pull-never", image).strip()
        try:
            return self.run("buildah", "run", *ISOLATION, *mounted, container, "--", *words)
        finally:
            self.must("buildah", "rm", container)

    def layers_of(self, image: str) -> list[str]:
        """Return the digests of an image's layers, the lowest first."""
        digests: list[str] = self._inspected(image)["rootfs"]["diff_ids"]
        return digests

    def configuration_of(self, image: str) -> dict[str, Any]:
        """Return an image's configuration in the format of OCI."""
        configuration: dict[str, Any] = self._inspected(image)["config"]
        return configuration

    def _inspected(self, image: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.must("buildah", "inspect", "--type", "image", image))["OCIv1"]
        return found

    def container(self, fill: Callable[[Path], None] = stand_ins.base_system, image: str = "scratch") -> str:
        """Return the name of a new container of an image, after `fill` of its mounted file system."""
        name = self.must("buildah", "from", "--pull-never", image).strip()
        self.change_files(name, fill)
        return name

    def change_files(self, container: str, change: Callable[[Path], None]) -> None:
        """Change the mounted file system of a container."""
        change(Path(self.must("buildah", "mount", container).strip()))
        self.must("buildah", "umount", container)

    def shell(self, container: str, commands: str) -> None:
        """Run shell commands in a container as root."""
        self.must("buildah", "run", *ISOLATION, "--user", "root", container, "--", "bash", "-euc", commands)

    def configure(self, container: str, environment: Mapping[str, str]) -> None:
        """Set environment variables of the image that a container becomes."""
        words = [word for name, value in environment.items() for word in ("--env", f"{name}={value}")]
        if words:
            self.must("buildah", "config", *words, container)

    def commit(self, container: str, name: str) -> None:
        """Make a container an image of that name."""
        self.must("buildah", "commit", "--format", "docker", "--quiet", "--rm", container, name)


def missing(*programs: str) -> str | None:
    """Return why no image can be built here, or None if one can. A test needs `programs` beside buildah."""
    if os.geteuid():
        return "only root may build an image without a daemon"
    absent = [program for program in sorted({"buildah", "mmdebstrap", *programs}) if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}; scripts/install_buildah installs them" if absent else None


def builds_images(*programs: str) -> list[pytest.MarkDecorator]:
    """Return the marks of tests that build images. Continuous integration has the programs, and skips none of them."""
    reason = missing(*programs)
    return [
        pytest.mark.skipif(bool(reason) and "CI" not in os.environ, reason=reason or ""),
    ]


def prepare(root: Path, parts: Sequence[str]) -> None:
    """Copy parts of the repository to a directory, with stand-ins for the AWS CLI and Docker, and an empty store."""
    for part in parts:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
        copy(ROOT / part, root / part)
    for dockerfile in (root / "container").glob("*Dockerfile"):
        # buildah 1.28 waits for itself where one RUN has two locked caches, and copies without --link.
        dockerfile.write_text(dockerfile.read_text().replace(",sharing=locked", "").replace("COPY --link", "COPY"))
    for folder in ("bin", "caches", "additions"):
        (root / folder).mkdir()
    for name, body in {"aws": AWS, "docker": DOCKER}.items():
        (root / "bin" / name).write_text(stand_ins.script(body))
        (root / "bin" / name).chmod(0o755)
    (root / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{root}/store"\nrunroot = "{root}/run"\n'
    )


@contextmanager
def image_directory() -> Iterator[Path]:
    """Yield an empty directory for images, and delete it when the block ends.

    The directory is in memory if MEMORY_FOR_IMAGES bytes of it are available, and on disk otherwise.
    """
    available = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert available, "/proc/meminfo has no MemAvailable"
    free = min(int(available[1]) * 1024, shutil.disk_usage(MEMORY).free) if MEMORY.is_dir() else 0
    parent = MEMORY if free >= MEMORY_FOR_IMAGES else None
    with tempfile.TemporaryDirectory(prefix="trainway-images-", dir=parent, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextmanager
def store_of(builder: Builder) -> Iterator[None]:
    """Delete a builder's images when the block ends."""
    try:
        yield
    finally:
        builder.run("buildah", "rm", "--all")
        builder.run("umount", str(builder.root / "store/overlay"))
        shutil.rmtree(builder.root / "store", ignore_errors=True)
