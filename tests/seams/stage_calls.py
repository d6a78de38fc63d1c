"""What a delivery stage calls, recorded from a run of its script with the environment that its template gives it.

Stand-ins for the command-line tools of AWS, Docker, Helm, and others record how they are called. The stage finds
nothing done before: no image, no chart, and no copy of a tool. In a closed network it finds the mirror filled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks.constructs.delivery.bundle import platform_bundles
from tests.seams.resolved import Deployed
from tests.seams.shapes import platforms
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform

RECORD = """#!/bin/bash
# One write for each call: the commands of a pipe record theirs at the same time.
printf -v call '%s\\x1f' "${0##*/}" "$@"
printf '%s\\x1e' "$call" >>"$CALLS"
[[ " $* " != *" --password-stdin "* && " $* " != *" --check "* ]] || cat >/dev/null
"""
# As published: one Deployment, of which the stage reads the images.
MANIFEST = "kind: Deployment\\nspec:\\n  containers:\\n  - image: mpioperator/mpi-operator:0.8\\n    name: it\\n"
BODIES = {
    "aws": f"""
case "$1 $2" in
  "secretsmanager get-secret-value") echo '{{"username": "a", "password": "b"}}' ;;
  "ecr describe-images")
    if [[ " $* " == *" --registry-id "* ]]; then
      # No copy of the image is anywhere.
      echo RepositoryNotFoundException >&2
      exit 254
    fi
    echo "${{4##*/}}" >"$DONE/last"
    made=$DONE/$(tr / _ <<<"$4-$6")
    if [[ ! -e $made && ! ( -n $SUPPLIED && $4 == */mirror/* ) ]]; then
      touch "$made"
      echo ImageNotFoundException >&2
      exit 254
    fi
    echo sha256:0 ;;
  "ecr get-login-password") echo token ;;
  "ecr get-signing-configuration") echo '{{"rules": []}}' ;;
  "ecr describe-image-signing-status") echo "$SIGNATURE" ;;
  "s3 cp")
    [[ -n $SUPPLIED || $3 != s3://*/tools/* ]] || exit 1
    [[ $3 != s3://* || $4 == */ ]] || printf '{MANIFEST}' >"$4" ;;
  "s3 sync") cp -R "$3" "$DONE/synced" ;;
  "fsx update-file-system") touch "$DONE/squashed" ;;
  "fsx describe-file-systems") [[ ! -e $DONE/squashed ]] || printf '%s\\t%s' "$ROOT_SQUASH" "${{NO_SQUASH_NIDS:-}}" ;;
esac
""",
    "docker": f'[[ "$*" != *"imagetools inspect"* ]] || echo sha256:{64 * "0"}\n',
    "helm": """
if [[ $1 == pull || $1 == package ]]; then
  while (($#)); do [[ $1 != --destination ]] || touch "$2/$(<"$DONE/last").tgz"; shift; done
fi
""",
    "kubectl": "",
    "git": 'while (($#)); do [[ $1 != --output=* ]] || touch "${1#--output=}"; shift; done\n',
    # An empty script is a cosign that finds every signature.
    "curl": f"""
while (($#)); do
  if [[ $1 == --output && $2 == */cosign ]]; then :>"$2"; elif [[ $1 == --output ]]; then printf '{MANIFEST}' >"$2"; fi
  shift
done
""",
    "tar": "",
    "sha256sum": f"[[ $1 == --check ]] || echo {64 * '0'}\n",
}


# The stages of the image pipeline. All but the first build on an image of the stage before.
OF_THE_IMAGE = ("base", "additions", "image")


@dataclass(frozen=True)
class Stage:
    """A CodeBuild project of a platform: its stack's role, logical ID, the stage's name, and its environment.

    `image` is the name of the image that the stage is for, if it is for one.
    """

    stack: str
    project: str
    name: str
    environment: dict[str, str]
    properties: dict[str, Any]
    image: str = DEFAULT_IMAGE


def stages_of(platform: Deployed) -> Iterator[Stage]:
    """Yield the delivery stages of a platform."""
    for (stack, project), properties in platform.of_type("AWS::CodeBuild::Project").items():
        variables = {each["Name"]: each["Value"] for each in properties["Environment"]["EnvironmentVariables"]}
        name, *of = variables.pop("WAIT_HANDLE_URL").partition("/delivery/")[2].split("/")
        yield Stage(stack, project, name, variables, properties, *of)


def recorded(platform: str, stage: Stage, directory: Path) -> list[list[str]]:
    """Run a stage's script to its end and return its calls, each as name and arguments. Raises if the stage fails."""
    return run_stage(platforms()[platform], stage, directory)


def run_stage(
    platform: Platform,
    stage: Stage,
    directory: Path,
    change: Callable[[Path], object] = lambda _: None,
    *,
    is_signed: bool = True,
) -> list[list[str]]:
    """Run a stage's script to its end, after `change` of its bundle, and return its calls.

    ECR signs what is pushed if `is_signed`. Raises if the stage fails, or if it succeeds although ECR signs nothing.
    What the stage uploads as a folder is then in `done/synced` below the directory.
    """
    bundles = platform_bundles(directory / "bundles", platform, load_catalogue())
    of_the_image = dict.fromkeys(OF_THE_IMAGE, bundles.images[stage.image])
    bundle = {"mirror": bundles.mirror, **of_the_image}.get(stage.name, bundles.cluster)
    change(bundle.directory)
    tools, done, calls = directory / "bin", directory / "done", directory / "calls"
    tools.mkdir()
    done.mkdir()
    if stage.name in OF_THE_IMAGE[1:]:
        # The stage before this one has built its base.
        base = f"{stage.environment['MIRROR_PREFIX']}/training-base-imageTag={stage.environment['BASE_TAG']}"
        (done / base.replace("/", "_")).touch()
    for name, body in BODIES.items():
        (tools / name).write_text(RECORD + body, encoding="utf-8")
        (tools / name).chmod(0o755)
    environment = {
        "PATH": os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(directory),
        "CALLS": str(calls),
        "DONE": str(done),
        # CodeBuild sets it.
        "AWS_REGION": platform.region,
        **stage.environment,
        "SIGNATURE": "COMPLETE" if is_signed else "FAILED",
        # What a closed network's stages would have to fetch, delivery/supply.sh has brought in.
        "SUPPLIED": "true" if stage.environment.get("NETWORK_ACCESS") == "closed" else "",
    }
    # Packages of the nodes come from their publishers and need no permission.
    (bundle.directory / "delivery" / "node_packages.sh").write_text('mkdir -p "$1"\n', encoding="utf-8")
    script = bundle.directory / "delivery" / f"{stage.name}.sh"
    ran = subprocess.run(
        ["bash", str(script)],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=1800,
        check=False,
    )
    if bool(ran.returncode) == is_signed:
        raise AssertionError(f"stage {stage.name} of {platform.name} failed: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    # Words end with a unit separator and calls with a record separator, for a word may have lines.
    text = calls.read_text(encoding="utf-8") if calls.exists() else ""
    return [call.split("\x1f")[:-1] for call in text.split("\x1e")[:-1]]
