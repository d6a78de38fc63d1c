"""Time and size of the training image's builds: from nothing, a new package, and another line of the job.

It builds container/Dockerfile by BuildKit with the real packages of PyTorch, in the variant for CPUs, whose packages
are those of CUDA without EFA and NCCL's tests. Its Docker has the containerd image store, as that of
delivery/build_tool.sh, and a registry takes the place of ECR. The builder forgets everything before each build, as a
new machine does. Checksums are left out, because the base image given can have another Python than the lists are for.

The sizes are what a registry stores and a node fetches.
"""

import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.record import arguments, record
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.image.image_build import build_arguments
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform

ROOT = Path(__file__).resolve().parents[1]
NEW_PACKAGE = "einops==0.8.1"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
MB = 1_000_000


class Builds:
    """Builds of a copy of the image's sources, and what a registry has of them."""

    def __init__(self, sources: Path, registry: str, base_image: str) -> None:
        self.sources, self.registry = sources, registry
        group = {"name": "train", "instance_type": "m7i.8xlarge", "count": 1}
        platform = Platform.model_validate({"region": "us-west-2", "zones": ["usw2-az1"], "node_groups": [group]})
        self.arguments = build_arguments(platform, load_catalogue(), load_versions())
        self.arguments |= {"BASE_IMAGE": base_image, "UBUNTU_SNAPSHOT": ""}

    def base(self, tag: str, cache: str | None = None) -> float:
        """Build and push the base with the cache of another tag, and return the seconds."""
        kept = f"type=registry,ref={self.registry}/base:cache-{tag},mode=max,image-manifest=true,oci-mediatypes=true"
        words = ["--target", "libraries", "--cache-to", f"{kept},compression=zstd,force-compression=true"]
        words += ["--cache-from", f"type=registry,ref={self.registry}/base:cache-{cache}"] if cache else []
        return self._build(f"base:{tag}", *words)

    def image(self, tag: str, base: str) -> float:
        """Build and push the image on a base, and return the seconds."""
        digest = manifest(self.registry, "base", base)[0]
        context = f"libraries=docker-image://{self.registry}/base@{digest}"
        # As build_on_base of delivery/build_tool.sh.
        return self._build(f"training:{tag}", "--build-context", context, push="push=,store=false")

    def _build(self, name: str, *words: str, push: str = "push=true") -> float:
        forget()
        date = f"--date=@{self.arguments['SOURCE_DATE_EPOCH']}"
        run("find", str(self.sources), "-exec", "touch", "--no-dereference", date, "{}", "+")
        given = [word for item in self.arguments.items() for word in ("--build-arg", "=".join(item))]
        output = f"type=image,{push},compression=zstd,force-compression=true,oci-mediatypes=true"
        began = time.monotonic()
        run(
            *("docker", "buildx", "build", "--platform", "linux/amd64", "--network", "host", "--provenance=false"),
            *("--progress=plain", "--file", str(self.sources / "container/Dockerfile"), "--output", output),
            *("--tag", f"{self.registry}/{name}", *given, *words, str(self.sources)),
        )
        return round(time.monotonic() - began, 1)


def manifest(registry: str, repository: str, tag: str) -> tuple[str, dict[str, Any]]:
    """Return the digest and the manifest of an image in a registry without TLS."""
    request = urllib.request.Request(f"http://{registry}/v2/{repository}/manifests/{tag}", headers={"Accept": MANIFEST})
    with urllib.request.urlopen(request) as answer:
        return answer.headers["Docker-Content-Digest"], json.load(answer)


def layers(registry: str, repository: str, tag: str) -> dict[str, int]:
    """Return the bytes of the layers of an image by their digests, the lowest first."""
    return {layer["digest"]: layer["size"] for layer in manifest(registry, repository, tag)[1]["layers"]}


def forget() -> None:
    """Delete everything that the builder has, with the images that it pushed."""
    run("docker", "image", "prune", "--all", "--force")
    run("docker", "buildx", "prune", "--all", "--force")


def run(*command: str) -> str:
    """Run a command to its end and return what it printed. Raises RuntimeError with that if it fails."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}")
    return done.stdout


def sources(directory: Path) -> None:
    """Copy what the image is built from, without the checksums of packages."""
    for part in ("container", "training", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
        copy(ROOT / part, directory / part)
    for file in [directory / "container/Dockerfile", *(directory / "container").glob("*.sh")]:
        text = (
            file.read_text(encoding="utf-8").replace(" --require-hashes", "").replace(" --hash=sha256:%s\\n", " #%s\\n")
        )
        file.write_text(text, encoding="utf-8")
    for file in (directory / "container/requirements").iterdir():
        lines = file.read_text(encoding="utf-8").splitlines()
        kept = [line.removesuffix(" \\") for line in lines if "--hash=" not in line]
        file.write_text("\n".join([*kept, ""]), encoding="utf-8")


def new_bytes(after: dict[str, int], before: dict[str, int]) -> int:
    """Return the bytes that a node with one image fetches for another."""
    return sum(size for digest, size in after.items() if digest not in before)


def measure(registry: str, base_image: str) -> dict[str, Any]:
    """Return the figures of the three builds, in seconds and bytes."""
    with tempfile.TemporaryDirectory() as directory:
        checkout = Path(directory)
        sources(checkout)
        builds = Builds(checkout, registry, base_image)
        nothing = {"base_seconds": builds.base("one"), "image_seconds": builds.image("one", "one")}
        one = layers(registry, "training", "one")
        job = checkout / "training/train.py"
        job.write_text(f"{job.read_text(encoding='utf-8')}\n# Another line.\n", encoding="utf-8")
        line_seconds = builds.image("line", "one")
        line = layers(registry, "training", "line")
        listed = checkout / "container/requirements/training.txt"
        listed.write_text(f"{listed.read_text(encoding='utf-8')}{NEW_PACKAGE}\n", encoding="utf-8")
        package_seconds = [builds.base("package", cache="one"), builds.image("package", "package")]
        package = layers(registry, "training", "package")
    return {
        "builder": json.loads(run("docker", "version", "--format", "{{json .Server.Version}}")),
        "nothing": nothing | {"bytes": sum(one.values()), "layers": [size for size in one.values() if size > MB]},
        "package": {
            "base_seconds": package_seconds[0],
            "image_seconds": package_seconds[1],
            "bytes": new_bytes(package, line),
        },
        "line": {"base_seconds": 0, "image_seconds": line_seconds, "bytes": new_bytes(line, one)},
    }


def main() -> None:
    """Measure, print the result, and write it where the options say."""
    parser = arguments("image_layers", __doc__)
    parser.add_argument("--registry", default="127.0.0.1:5000", help="a registry without TLS, as HOST:PORT")
    parser.add_argument("--base-image", required=True, help="what the base begins with: Debian or Ubuntu, by its tag")
    options = parser.parse_args()
    record(measure(options.registry, options.base_image), ["pydantic"], options.out)


if __name__ == "__main__":
    main()
