"""A copy of the delivery scripts in a scratch tree, and stand-ins on PATH that record how they were called."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.data_files import read_yaml

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"

# What platforms of GPU nodes install, as the stacks name it to the stages.
EKS = "aws-efa-k8s-device-plugin nvidia-device-plugin kubeflow-trainer"
HYPERPOD_EKS = f"hyperpod-helm-chart {EKS}"
# Every chart that needs no login, which no platform installs at once.
DOCUMENT = read_yaml(ROOT / "delivery/mirror.yaml")
EVERY_CHART = " ".join(chart["chart"] for chart in DOCUMENT["charts"] if not chart.get("requires_login"))

# What the deploy has the image built with.
IMAGE_ARGUMENTS = {
    "BASE_IMAGE": "ubuntu:24.04@sha256:0",
    "LAYER_COMPRESSION": "zstd",
    "NCCL_VERSION": "",
    "SOURCE_DATE_EPOCH": "1767225600",
    "VARIANT": "cpu",
}

# As published: the same word is the image of a Deployment, and a field of a definition.
MANIFEST = """kind: CustomResourceDefinition
properties:
  image:
    type: string
---
kind: Deployment
spec:
  containers:
  - image: mpioperator/mpi-operator:0.8
    name: mpi-operator
"""

# Each call appends its name and arguments to $CALLS; what it prints and how it ends comes from the body.
STAND_IN = """#!/usr/bin/env bash
[[ " $* " != *" --password-stdin "* ]] || cat >/dev/null
python3 - "${0##*/}" "$@" <<'RECORD'
import json, os, sys
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
RECORD
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
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

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

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs delivery/`script` to its end."""
        return subprocess.run(
            ["bash", str(self.root / "delivery" / script), *arguments],
            env=self.variables(**variables),
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
    (tmp_path / "bin").mkdir()
    (tmp_path / "image.json").write_text(json.dumps(IMAGE_ARGUMENTS))
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
    for folder in ("ecr", "s3", "helm"):
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


@pytest.fixture
def helm_archive(aws) -> Path:
    """A helm archive, a cosign, and a manifest, in `published`. The workshop's mirror.yaml states their checksums."""
    aws.stand_in("helm", HELM)
    inner = aws.root / "helm" / "linux-amd64"
    inner.mkdir()
    shutil.move(aws.root / "bin" / "helm", inner / "helm")
    path = aws.root / "delivery" / "mirror.yaml"
    document = yaml.safe_load(path.read_text())
    published = aws.root / "published"
    published.mkdir()
    archive = published / document["tools"]["helm"]["url"].rpartition("/")[2]
    subprocess.run(["tar", "-czf", archive, "-C", inner.parent, "linux-amd64"], check=True)
    document["tools"]["helm"]["sha256"] = sha256(archive)
    verifier = published / document["tools"]["cosign"]["url"].rpartition("/")[2]
    verifier.write_text(STAND_IN.replace("${0##*/}", "cosign") + '[[ "$*" != *"${UNSIGNED:-none}"* ]]\n')
    document["tools"]["cosign"]["sha256"] = sha256(verifier)
    for origin in (chart["manifest"] for chart in document["charts"] if "manifest" in chart):
        manifest = published / origin["url"].rpartition("/")[2]
        manifest.write_text(MANIFEST)
        origin["sha256"] = sha256(manifest)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    aws.environment["PUBLISHED"] = str(published)
    aws.stand_in("curl", CURL)
    aws.stand_in("git", GIT)
    return archive
