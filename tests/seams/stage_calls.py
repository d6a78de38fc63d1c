"""What a delivery stage calls, recorded from a run of its script with the environment that its template gives it.

Stand-ins for the command-line tools of AWS, Docker, Helm, and others record how they are called. The stage finds
nothing done before: no image, no chart, and no copy of a tool. In a closed network it finds the mirror filled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks.constructs.bundle import platform_bundles
from tests.seams.resolved import Deployed
from tests.seams.shapes import platforms
from trainway.spec.catalogue import load_catalogue

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
  "ecr describe-images")
    echo "${{4##*/}}" >"$DONE/last"
    made=$DONE/$(tr / _ <<<"$4-$6")
    if [[ ! -e $made && ! ( -n $SUPPLIED && $4 == */mirror/* ) ]]; then
      touch "$made"
      echo ImageNotFoundException >&2
      exit 254
    fi
    echo sha256:0 ;;
  "ecr get-login-password") echo token ;;
  "s3 cp")
    [[ -n $SUPPLIED || $3 != s3://*/tools/* ]] || exit 1
    [[ $3 != s3://* || $4 == */ ]] || printf '{MANIFEST}' >"$4" ;;
  "fsx update-file-system") touch "$DONE/squashed" ;;
  "fsx describe-file-systems") [[ ! -e $DONE/squashed ]] || printf '%s\\t%s' "$ROOT_SQUASH" "${{NO_SQUASH_NIDS:-}}" ;;
esac
""",
    "docker": "",
    "helm": """
if [[ $1 == pull || $1 == package ]]; then
  while (($#)); do [[ $1 != --destination ]] || touch "$2/$(<"$DONE/last").tgz"; shift; done
fi
""",
    "kubectl": "",
    "git": 'while (($#)); do [[ $1 != --output=* ]] || touch "${1#--output=}"; shift; done\n',
    "curl": f"""while (($#)); do [[ $1 != --output ]] || printf '{MANIFEST}' >"$2"; shift; done\n""",
    "tar": "",
    "sha256sum": "",
}


@dataclass(frozen=True)
class Stage:
    """A CodeBuild project of a platform: its stack's role, logical ID, the stage's name, and its environment."""

    stack: str
    project: str
    name: str
    environment: dict[str, str]
    properties: dict[str, Any]


def stages_of(platform: Deployed) -> Iterator[Stage]:
    """Yield the delivery stages of a platform."""
    for (stack, project), properties in platform.of_type("AWS::CodeBuild::Project").items():
        variables = {each["Name"]: each["Value"] for each in properties["Environment"]["EnvironmentVariables"]}
        name = variables.pop("WAIT_HANDLE_URL").rpartition("/")[2]
        yield Stage(stack, project, name, variables, properties)


def recorded(platform: str, stage: Stage, directory: Path) -> list[list[str]]:
    """Run a stage's script to its end and return its calls, each as name and arguments. Raises if the stage fails."""
    bundles = platform_bundles(directory / "bundles", platforms()[platform], load_catalogue())
    bundle = {"image": bundles.image, "mirror": bundles.mirror}.get(stage.name, bundles.cluster)
    tools, done, calls = directory / "bin", directory / "done", directory / "calls"
    tools.mkdir()
    done.mkdir()
    for name, body in BODIES.items():
        (tools / name).write_text(RECORD + body, encoding="utf-8")
        (tools / name).chmod(0o755)
    environment = {
        "PATH": os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(directory),
        "CALLS": str(calls),
        "DONE": str(done),
        # CodeBuild sets it.
        "AWS_REGION": platforms()[platform].region,
        **stage.environment,
        # Packages of the nodes come from their publishers and need no permission.
        "CONTAINERS": "none",
        # What a closed network's stages would have to fetch, delivery/supply.sh has brought in.
        "SUPPLIED": "true" if stage.environment.get("NETWORK_ACCESS") == "closed" else "",
    }
    script = bundle.directory / "delivery" / f"{stage.name}.sh"
    ran = subprocess.run(
        ["bash", str(script)],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    if ran.returncode:
        raise AssertionError(f"stage {stage.name} of {platform} failed: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    # Words end with a unit separator and calls with a record separator, for a word may have lines.
    text = calls.read_text(encoding="utf-8") if calls.exists() else ""
    return [call.split("\x1f")[:-1] for call in text.split("\x1e")[:-1]]
