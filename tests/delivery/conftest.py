"""A copy of the delivery scripts in a scratch tree, and stand-ins on PATH that record how they were called."""

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.data_files import read_yaml
from tests.delivery.python_forks import client

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"

# What platforms of GPU nodes install, as the stacks name it to the stages.
EKS = "aws-efa-k8s-device-plugin nvidia-device-plugin kubeflow-trainer"
HYPERPOD_EKS = f"hyperpod-helm-chart {EKS}"
# Every chart that needs no login, which no platform installs at once.
DOCUMENT = read_yaml(ROOT / "delivery/mirror.yaml")
EVERY_CHART = " ".join(chart["chart"] for chart in DOCUMENT["charts"] if not chart.get("requires_login"))


def listed(section: str, name: str) -> dict[str, Any]:
    """Return the entry of an image or a chart of the real list, whose versions change."""
    (found,) = [each for each in DOCUMENT[section] if name in (each.get("name"), each.get("chart"))]
    return dict(found)


# The lock of the workshop: some digests are known and others are not, whatever the real lock has. The stand-in of helm
# packs charts that do not have the real checksums.
LOCKED_IMAGES = ("nvidia-device-plugin", "jobset")
LOCK = {
    "images": {
        image["name"]: {"tag": image["tag"], "digest": f"sha256:{64 * 'd'}" if image["name"] in LOCKED_IMAGES else None}
        for image in DOCUMENT["images"]
    },
    "charts": {
        chart["chart"]: {"version": chart["version"], "sha256": None}
        for chart in DOCUMENT["charts"]
        if "repository" in chart or "oci" in chart
    },
}

# What the deploy has the image built with.
IMAGE_ARGUMENTS = {
    "BASE_IMAGE": "ubuntu:24.04@sha256:0",
    "LAYER_COMPRESSION": "zstd",
    "NCCL_VERSION": "",
    "SOURCE_DATE_EPOCH": "1767225600",
    "VARIANT": "cpu",
}

# As published: the same word is the image of a Deployment, and a field of a definition.
REFERENCE = listed("charts", "mpi-operator")["image_values"][0]["reference"]
MANIFEST = f"""kind: CustomResourceDefinition
properties:
  image:
    type: string
---
kind: Deployment
spec:
  containers:
  - image: {REFERENCE}
    name: mpi-operator
"""

# Each call appends its name and arguments to $CALLS, as a line of JSON. What it prints and how it ends comes from the
# body.
# Bash writes the line, because a Python for each call would take most of the CPU time of these tests.
STAND_IN = r"""#!/bin/bash
[[ " $* " != *" --password-stdin "* ]] || cat >/dev/null
record() {
  local word line
  for word in "$@"; do
    word=${word//\\/"\\\\"} word=${word//\"/"\\\""}
    line+=", \"${word//$'\n'/"\\n"}\""
  done
  printf '[%s]\n' "${line:2}" >>"$CALLS"
}
record "${0##*/}" "$@"
# End of RECORD
"""


@dataclass
class Workshop:
    """A repository tree with stand-ins for the tools that only CodeBuild has."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def calls(self) -> list[list[str]]:
        """Every call so far, as [name, argument, ...]."""
        path = self.root / "calls"
        # Only a line feed ends a call.
        return [json.loads(line, strict=False) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def called(self, *words: str) -> list[list[str]]:
        """The calls that begin with `words`."""
        return [call for call in self.calls if call[: len(words)] == list(words)]

    @property
    def pushed(self) -> list[list[str]]:
        """The builds that pushed an image. The base is built before, for the list of its packages."""
        return [call for call in self.called("docker", "buildx", "build") if "--tag" in call]

    def stand_in(self, name: str, body: str = "") -> None:
        """Puts an executable `name` first on PATH; `body` is bash that runs after the call was recorded."""
        path = self.root / "bin" / name
        path.write_text(STAND_IN + body)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def lock(self, kind: str, name: str, **values: str | None) -> None:
        """Changes an entry of the lock, which is an image or a chart, as `kind` says."""
        file = self.root / "delivery/mirror.lock.yaml"
        lock = yaml.safe_load(file.read_text())
        lock[kind][name] |= values
        file.write_text(json.dumps(lock))

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs delivery/`script` to its end."""
        return subprocess.run(
            ["bash", str(self.root / "delivery" / script), *arguments],
            env=self.variables(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
        )

    def variables(self, **variables: str) -> dict[str, str]:
        """The environment of a stage."""
        path = f"{self.root / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "CALLS": str(self.root / "calls"), **self.environment, **variables}


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    for folder in ("delivery", "lifecycle_scripts", "container"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "delivery/mirror.lock.yaml").write_text(json.dumps(LOCK))
    (tmp_path / "bin").mkdir()
    (tmp_path / "image.json").write_text(json.dumps(IMAGE_ARGUMENTS))
    python = tmp_path / "bin" / "python3"
    python.write_text(client())
    python.chmod(0o755)
    return Workshop(tmp_path)


# ECR as a directory: a tag exists if a file of its name does; pushing makes the file.
ECR = r"""
case "$1 $2" in
  "ecr describe-images")
    [[ "$5" != --filter ]] || { printf '%b' "${CACHES:-}"; exit; }
    tag=$4/${6#imageTag=}
    if [[ -e "$ECR/$tag" ]]; then echo "sha256:$(cat "$ECR/$tag")"; else
      echo "An error occurred (${ECR_ERROR:-ImageNotFoundException}) when calling DescribeImages" >&2
      exit 254
    fi ;;
  "ecr get-login-password") echo token ;;
  "s3 cp") [[ "$3" != s3://* ]] || { [[ -e "$S3/${3##*/}" ]] && cp "$S3/${3##*/}" "$4"; } || exit 1
           [[ "$4" != s3://* ]] || cp "$3" "$S3/${4##*/}" ;;
  "s3api put-object")
    [[ "$3 $5 $7 $9 ${10}" == "--bucket --key --body --if-none-match *" ]] || exit 252
    error=${S3_ERROR:-}
    [[ ! -e "$S3/${6##*/}" ]] || error=${error:-PreconditionFailed}
    if [[ -n "$error" ]]; then
      echo "An error occurred ($error) when calling the PutObject operation" >&2
      exit 254
    fi
    cp "$8" "$S3/${6##*/}" ;;
  "s3 sync") rm -rf "$S3/synced"; cp -R "$3" "$S3/synced" ;;
esac
"""
DOCKER = r"""
if [[ "$1 $2 $3" == "buildx imagetools inspect" ]]; then
  echo "sha256:$(printf %s "${!#}${PUBLISHED_AGAIN:-}" | sha256sum | cut -d " " -f 1)"
  exit
fi
push() { mkdir -p "$(dirname "$ECR/$1")"; echo "$2" >"$ECR/$1"; }
while (($#)); do
  [[ "$1" != --output || "$2" != type=local,* ]] || echo "{}" >"${2#*dest=}/sbom.spdx.json"
  # BuildKit's provenance, unless the builder has none of its own.
  [[ "$1" != --metadata-file || -n "${WITHOUT_PROVENANCE:-}" ]] ||
    echo '{"buildx.build.provenance": {"materials": [{"uri": "pkg:docker/ubuntu@24.04"}]}}' >"$2"
  if [[ "$1" == --tag ]]; then name=${2#*/}; push "${name%:*}/${name##*:}" "$(cat "$CALLS" | wc -l)"; fi
  shift
done
"""
HELM = r"""
[[ "$1" != "${HELM_FAILS_TO:-none}" ]] || exit 1
: "${CHART_PUBLISHED_AGAIN:=}"
release=$S3/releases/$2
case "$1" in
  upgrade)
    [[ " $* " != *" --labels installed-by=trainway "* ]] || { mkdir -p "$S3/releases" && touch "$release"; }
    # The values, which the stage deletes when it ends, by the release and the place of their option.
    mkdir -p "$S3/values"
    for ((at = 1; at < $#; at++)); do
      next=$((at + 1))
      [[ "${!at}" != --values ]] || cp "${!next}" "$S3/values/$2.$(printf '%02d' "$at")"
    done ;;
  list)
    [[ "$*" != *" --selector installed-by!=trainway "* ]] || cat "${THEIR_RELEASES:-/dev/null}"
    [[ "$*" != *" --selector installed-by=trainway "* ]] || ls "$S3/releases" 2>/dev/null || true ;;
  uninstall) rm "$release" ;;
  pull | package)
    name=${2##*/}
    [[ ! -e "$2/Chart.yaml" ]] || name=$(sed -n 's/^name: //p' "$2/Chart.yaml")
    while (($#)); do
      [[ "$1" != --version ]] || version=$2
      [[ "$1" != --destination ]] || printf '%s\n' "$name/$version" $CHART_PUBLISHED_AGAIN >"$2/chart-$version.tgz"
      shift
    done ;;
  push)
    tag=${3#oci://*/}/$(head -n 1 "$2")
    mkdir -p "$(dirname "$ECR/$tag")"
    echo 1 >"$ECR/$tag" ;;
esac
"""

# The internet: what is published, by the last part of its address.
CURL = r"""
url=${!#}
while (($#)); do
  [[ "$1" != --output ]] || cp "$PUBLISHED/${url##*/}" "$2"
  shift
done
"""

# A clone holds the one chart that is packed from git, whose name is not that of its directory.
GIT = r"""
if [[ "$1" == init ]]; then
  mkdir -p "$3/helm_chart/HyperPodHelmChart"
  echo "name: hyperpod-helm-chart" >"$3/helm_chart/HyperPodHelmChart/Chart.yaml"
fi
"""


def sha256(path: Path) -> str:
    """The checksum as mirror.yaml states it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def aws(workshop):
    for folder in ("ecr", "s3"):
        (workshop.root / folder).mkdir()
    workshop.environment |= {
        "ECR": str(workshop.root / "ecr"),
        "S3": str(workshop.root / "s3"),
        "AWS_REGION": "us-west-2",
        "MIRROR_REGISTRY": REGISTRY,
        "MIRROR_PREFIX": "atlas/mirror",
        "MIRROR_BUCKET_URI": "s3://bucket/mirror/",
        "BILLS_URI": "s3://bucket/mirror/bills",
        "HOME": str(workshop.root),
    }
    workshop.stand_in("aws", ECR)
    workshop.stand_in("docker", DOCKER)
    workshop.stand_in("kubectl")
    return workshop


@cache
def published() -> tuple[dict[str, bytes], str]:
    """Return a helm archive, a cosign, and manifests by name, and a mirror.yaml that states their checksums."""
    text, tools = (ROOT / "delivery/mirror.yaml").read_text(), DOCUMENT["tools"]
    helm, archive = (STAND_IN + HELM).encode(), io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as packed:
        entry = tarfile.TarInfo("linux-amd64/helm")
        entry.mode, entry.size = 0o755, len(helm)
        packed.addfile(entry, io.BytesIO(helm))
    cosign = STAND_IN.replace("${0##*/}", "cosign") + '[[ "$*" != *"${UNSIGNED:-none}"* ]]\n'
    contents = [(tools["helm"], archive.getvalue()), (tools["cosign"], cosign.encode())]
    contents += [(chart["manifest"], MANIFEST.encode()) for chart in DOCUMENT["charts"] if "manifest" in chart]
    for origin, content in contents:
        assert text.count(origin["sha256"]) == 1
        text = text.replace(origin["sha256"], hashlib.sha256(content).hexdigest())
    return {origin["url"].rpartition("/")[2]: content for origin, content in contents}, text


@pytest.fixture
def helm_archive(aws) -> Path:
    """A helm archive, a cosign, and a manifest, in `published`. The workshop's mirror.yaml states their checksums."""
    files, mirror_list = published()
    (aws.root / "published").mkdir()
    for name, content in files.items():
        (aws.root / "published" / name).write_bytes(content)
    (aws.root / "delivery" / "mirror.yaml").write_text(mirror_list)
    aws.environment["PUBLISHED"] = str(aws.root / "published")
    aws.stand_in("curl", CURL)
    aws.stand_in("git", GIT)
    return aws.root / "published" / DOCUMENT["tools"]["helm"]["url"].rpartition("/")[2]


def push_base(aws, tag: str = "ba5e") -> None:
    """Add a base to ECR and its list of packages to the bucket, as the base stage does."""
    bases = aws.root / "ecr/atlas/mirror/training-base"
    bases.mkdir(parents=True)
    (bases / tag).write_text("ba5e\n")
    (aws.root / f"s3/{tag}.spdx.json").write_text("{}\n")


def installed(aws, *charts: str) -> None:
    """Add the Helm releases that an earlier deploy installed."""
    releases = aws.root / "s3/releases"
    releases.mkdir()
    for chart in DOCUMENT["charts"]:
        if chart["chart"] in charts:
            (releases / chart["release"]).touch()
    assert len(list(releases.iterdir())) == len(charts)
