"""Time and size of builds on the training image: packages of a platform file, a Dockerfile, and changes of both.

The scripts of the delivery stages build with BuildKit: base.sh once, and then additions.sh and image.sh for each
change. A registry takes the place of ECR. The base has the real packages of PyTorch, as in benchmarks/image_layers.py,
which says what it lacks. The builder forgets everything before each build, as a new machine does.

Seconds are those of each script. Bytes are what a registry sends to a node that has the image before the change.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.image_layers import MANIFEST, ROOT, forget, layers, new_bytes, run, sources
from benchmarks.record import arguments, record
from delivery.content_hash import image_hash
from delivery.user_dockerfile import OPTIONS
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.image.image_build import build_arguments
from trainway.spec.loader import load_versions
from trainway.spec.platform import Platform

# As `trainway image lock` writes them.
FIRST = "einops==0.8.1 --hash=sha256:919387eb55330f5757c6bea9165c5ff5cfe63a642682ea788a6d472576d81737\n"
SECOND = "tabulate==0.9.0 --hash=sha256:024ca478df22e9340661486f85298cff5f6dcdba14f3813e8830015b9ed1948f\n"
PREFIX = "user-images"
BASES, IMAGES = f"{PREFIX}/training-base", f"{PREFIX}/training"
# ECR's answers from the registry. The list of a base's packages is not kept.
AWS = f"""#!/usr/bin/env bash
set -euo pipefail
case "$1 $2" in
  "ecr get-login-password") echo token ;;
  "ecr describe-images")
    if [[ "$5" == --filter ]]; then
      curl --silent "http://$MIRROR_REGISTRY/v2/$4/tags/list" | tr ',"[]' '\\n\\n\\n\\n' | grep '^cache-' || true
      exit
    fi
    answer=$(curl --silent --head --header 'Accept: {MANIFEST}' "http://$MIRROR_REGISTRY/v2/$4/manifests/${{6#imageTag=}}")
    digest=$(tr -d '\\r' <<<"$answer" | sed -n 's/^[Dd]ocker-[Cc]ontent-[Dd]igest: //p')
    [[ -z "$digest" ]] || {{ echo "$digest" && exit; }}
    echo ImageNotFoundException >&2
    exit 254 ;;
esac
"""


class Delivery:
    """A copy of the image pipeline's source, and the scripts that build from it."""

    def __init__(self, root: Path, registry: str, base_image: str, authorities: Path | None) -> None:
        self.root, self.registry = root, registry
        for part in ("delivery", "lifecycle_scripts"):
            shutil.copytree(ROOT / part, root / part)
        if authorities:
            shutil.copy(authorities, root / "lifecycle_scripts/yours/certificates/authorities.pem")
        (root / "additions").mkdir()
        (root / "bin").mkdir()
        (root / "bin/aws").write_text(AWS, encoding="utf-8")
        (root / "bin/aws").chmod(0o755)
        group = {"name": "train", "instance_type": "m7i.8xlarge", "count": 1}
        platform = Platform.model_validate({"region": "us-west-2", "zones": ["usw2-az1"], "node_groups": [group]})
        self.arguments = dict.fromkeys(OPTIONS.values(), "")
        self.arguments |= build_arguments(platform, load_catalogue(), load_versions())
        self.arguments |= {"BASE_IMAGE": base_image, "UBUNTU_SNAPSHOT": ""}
        (root / "image.json").write_text(json.dumps(self.arguments), encoding="utf-8")

    def tag(self, what: str) -> str:
        """Return the tag that a deploy of this copy gives an image."""
        return image_hash(self.root, what, self.arguments)

    def stage(self, name: str) -> float:
        """Run the script of a delivery stage with a builder that has nothing, and return the seconds."""
        forget()
        tags = {f"{each.upper()}_TAG": self.tag(each) for each in ("base", "packages", "dockerfile", "image")}
        if name == "image":
            added = [self.tag(each) for each in ("dockerfile", "packages", "base")]
            tags["BASE_TAG"] = next(tag for tag in added if tag != "none")
        environment = {
            **os.environ,
            "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "AWS_REGION": "us-west-2",
            "MIRROR_REGISTRY": self.registry,
            "MIRROR_PREFIX": PREFIX,
            "IMAGE_REPOSITORY": f"{self.registry}/{IMAGES}",
            "BILLS_URI": "s3://none",
            **tags,
        }
        began = time.monotonic()
        command = ["bash", str(self.root / f"delivery/{name}.sh")]
        done = subprocess.run(
            command, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            raise RuntimeError(done.stdout[-4000:])
        if name == "image" and "nothing to build" in done.stdout:
            raise RuntimeError("the registry has the images of an earlier run: begin with an empty one")
        return round(time.monotonic() - began, 1)

    def layers(self) -> dict[str, int]:
        """Return the bytes of the layers of the image, which is built, by their digests."""
        return layers(self.registry, IMAGES, self.tag("image"))


def measure(registry: str, base_image: str, authorities: Path | None) -> dict[str, Any]:
    """Return the figures of each change, in seconds and bytes."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        sources(root)
        delivery = Delivery(root, registry, base_image, authorities)
        delivery.stage("base")
        delivery.stage("image")
        before = {"image": delivery.layers()}

        def built(change: str) -> dict[str, float]:
            seconds = {"additions_seconds": delivery.stage("additions"), "image_seconds": delivery.stage("image")}
            had, before["image"] = before["image"], delivery.layers()
            print(f"{change}: {seconds}", flush=True)
            return seconds | {"bytes": new_bytes(before["image"], had)}

        additions, job = root / "additions", root / "training/train.py"
        figures = {}
        (additions / "pip.txt").write_text(FIRST, encoding="utf-8")
        figures["first package"] = built("first package")
        (additions / "pip.txt").write_text(FIRST + SECOND, encoding="utf-8")
        figures["another package"] = built("another package")
        (additions / "apt.txt").write_text("libaio-dev\n", encoding="utf-8")
        figures["package of the distribution"] = built("package of the distribution")
        shutil.copytree(ROOT / "examples/your-image", additions / "dockerfile")
        figures["first Dockerfile"] = built("first Dockerfile")
        kernels = additions / "dockerfile/kernels/kernels/__init__.py"
        kernels.write_text(f"{kernels.read_text(encoding='utf-8')}# Another line.\n", encoding="utf-8")
        figures["another line below the Dockerfile"] = built("another line below the Dockerfile")
        job.write_text(f"{job.read_text(encoding='utf-8')}\n# Another line.\n", encoding="utf-8")
        figures["another line of the job"] = built("another line of the job")
        base = sum(layers(registry, BASES, delivery.tag("base")).values())
    builder = json.loads(run("docker", "version", "--format", "{{json .Server.Version}}"))
    return {"builder": builder, "base_bytes": base, **figures}


def main() -> None:
    """Measure, print the result, and write it where the options say."""
    parser = arguments("user_images", __doc__)
    parser.add_argument("--registry", default="127.0.0.1:5000", help="a registry without TLS, as HOST:PORT")
    parser.add_argument("--base-image", required=True, help="what the base begins with: Debian or Ubuntu, by its tag")
    parser.add_argument("--authorities", type=Path, help="certificates, as PEM, of a proxy that ends TLS")
    options = parser.parse_args()
    record(measure(options.registry, options.base_image, options.authorities), ["pydantic"], options.out)


if __name__ == "__main__":
    main()
