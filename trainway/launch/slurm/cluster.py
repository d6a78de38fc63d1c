"""Running a line of bash where Slurm's commands are: on this machine if it has them, or else on the cluster."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping

from trainway.launch.registry.logins import login_on, remember_login
from trainway.launch.runs.names import check_login_name
from trainway.launch.slurm.session import IMAGE_USER, on_login_node
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff

# Where HyperPod has them (lifecycle_scripts/slurm_accounts.sh). Some logins have them on their path, and some do not.
_BIN = "/opt/slurm/bin"
WITH_SLURM = f"PATH=$PATH:{_BIN}"


def cluster_of(hand_off: HandOff, user: str | None = None) -> Mapping[str, str]:
    """Return how to reach the cluster. `user` is the login name there, for a machine without Slurm's commands.

    The login name is kept, and is the default from then on. The first default is the user of HyperPod's image.

    Raises UsageError where the cluster runs no Slurm, or nobody is named although only the teams' users run jobs.
    """
    what = f"{hand_off.platform} cannot be asked"
    if hand_off.orchestrator != "hyperpod-slurm":
        why = f"its orchestrator is {hand_off.orchestrator}, and runs no Slurm"
        raise usage_error(what, why=why, fix="launch with --target kubernetes")
    cluster = hand_off.cluster
    if user is not None and not slurm_is_here():
        remember_login(cluster.arn, check_login_name(user))
    user = user or login_on(cluster.arn)
    if user is None and hand_off.teams and not slurm_is_here():
        why = "there is no sbatch here, and on the cluster only the users of a team run jobs"
        raise usage_error(what, why=why, fix="name your login name there with --user, or launch on the login node")
    return {**named_cluster(hand_off), "user": IMAGE_USER if user is None else check_login_name(user)}


def named_cluster(hand_off: HandOff) -> Mapping[str, str]:
    """Return the name, the ARN, and the Region of the cluster."""
    return {"cluster": hand_off.cluster.name, "arn": hand_off.cluster.arn, "region": hand_off.region}


def on_cluster(line: str, cluster: Mapping[str, str], *, what: str) -> str:
    """Return what a line of bash prints on the cluster. Raises UsageError, which begins with `what`, if it fails."""
    line = f"{WITH_SLURM}\n{line}"
    status, output, errors = _here(line) if slurm_is_here() else on_login_node(line, cluster, what=what)
    if status:
        said = (errors or output).strip().splitlines()
        why = said[-1] if said else f"it ended with status {status}"
        raise usage_error(what, why=why, fix="`sinfo` and `squeue` on the login node show what the cluster can do")
    return output


def slurm_is_here() -> bool:
    """Return whether this machine submits to a cluster itself."""
    return shutil.which("sbatch") is not None or shutil.which("sbatch", path=_BIN) is not None


def _here(line: str) -> tuple[int, str, str]:
    done = subprocess.run(["bash", "-s"], input=line, capture_output=True, text=True, errors="replace", check=False)
    return done.returncode, done.stdout, done.stderr
