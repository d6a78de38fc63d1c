"""Where a node's processes find Python, PyTorch and `training`: in the image, or in somebody's virtual environment.

Either is a part of the batch script, which leaves the step's options in the array `options`.
"""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from trainway.launch.program.allocation import LOCAL_DISK
from trainway.launch.program.request import OnNodes, Request
from trainway.spec.facts.instance import Instance
from trainway.spec.image.image_reference import ecr_repository_of

# What container/Dockerfile sets for CUDA, with its reasons, for where the nodes' own libraries are used instead.
EFA = {
    "FI_EFA_USE_HUGE_PAGE": "0",
    "NCCL_NET_PLUGIN": "ofi",
    "NCCL_SOCKET_IFNAME": "^docker,lo,veth",
}
# A container has the directory /opt of its node here. pyxis ends a job whose mounts name a directory that a node lacks,
# and a node whose disks are broken has no directory for them. Every node has /opt.
# https://github.com/NVIDIA/pyxis/blob/107519944221822ea1dace4db8e7234b2eaa4cd5/pyxis_slurmstepd.c
# (validate_mount_sources, read 2026-11-29)
OPT_OF_NODE = PurePosixPath("/node/opt")
EFA_LIBRARIES = "/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib64:/opt/amazon/efa/lib:/opt/amazon/efa/lib64"

# The checks with which the script begins. They are the same for every run, so that no brace has to be doubled.
_CHECKS = """\
cannot_start() {
  echo "failed: $*" >"$run/outcome"
  echo "$*" >&2
  exit 1
}
if ! command -v enroot >/dev/null; then
  cannot_start "$SLURMD_NODENAME has no enroot:" \
    "[25-containers] in /var/log/provision/provisioning.log there says why;" \
    "deploy with slurm.containers: true, or launch with --environment"
fi
# must_be_own PATH MODE: PATH is this user's or root's, and has none of the permissions of the octal mask MODE.
must_be_own() {
  local owner mode
  read -r owner mode < <(stat --format='%u %a' "$1") || cannot_start "$1 cannot be read: look at it with ls -l"
  [[ ! -L $1 ]] && ((owner == UID || owner == 0)) && ! ((8#$mode & 8#$2)) ||
    cannot_start "$1 could come from another user: it is $(stat --format='%F of %U with mode %a' "$1"); remove it," \
      "or ask an administrator to"
}
"""


def in_virtual_environment(environment: PurePosixPath, instance: Instance) -> list[str]:
    """Return the lines that activate a virtual environment on the first node. The step passes it on to all nodes."""
    lines = [f"source {shlex.quote(f'{environment}/bin/activate')}", "options=()"]
    if instance.accelerator and instance.accelerator.vendor == "nvidia" and instance.efa_interfaces:
        lines += [f"export {name}={shlex.quote(value)}" for name, value in EFA.items()]
        lines.append(f'export LD_LIBRARY_PATH="{EFA_LIBRARIES}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"')
    return lines


def in_image(request: Request, on_nodes: OnNodes) -> list[str]:
    """Return the lines that run the program in an image. A user's first run makes enroot's file of it.

    A file of one's own: whoever may write it decides what runs as its reader. So a file or a directory is used only if
    it belongs to the user or to root, and no other user can write to it. Anybody may add to the directory of all
    images, which lifecycle_scripts/steps/20-lustre.sh creates as root with the sticky bit. enroot asks ECR for a
    password by the command in its credentials, so that no secret is written down; the nodes' role may pull.
    https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md, https://github.com/NVIDIA/pyxis (read 2026-11-21)

    Where there is no image, the run ends with the reason in its file `outcome`. enroot prints it after `[ERROR]`:
    https://github.com/NVIDIA/enroot/issues/146 (read 2026-11-23)
    """
    mount = shlex.quote(request.hand_off.mount_path)
    repository, digest = request.image.split("@")
    registry, _, name = repository.partition("/")
    password = f"$(aws ecr get-login-password --region {request.hand_off.region})"
    # A digest after a colon, as if it were a tag: releases of before 4 know no other form.
    is_ecr = ecr_repository_of(request.image) is not None
    uri = f"docker://{'AWS@' if is_ecr else ''}{registry}#{name}:{digest}"
    login = shlex.quote(f"machine {registry} login AWS password {password}") if is_ecr else ""
    disk, mounts = [], f"{mount}:{mount}"
    if on_nodes.local_disk:
        disk = [f"export {LOCAL_DISK}={OPT_OF_NODE / on_nodes.local_disk.relative_to('/opt')}"]
        mounts += f",/opt:{OPT_OF_NODE}"
    script = f"""\
{_CHECKS}\
image={mount}/images/$(id -un)/{digest.removeprefix("sha256:")}.sqsh
mkdir -m 1777 {mount}/images 2>/dev/null || true
[[ -k {mount}/images ]] && must_be_own {mount}/images 0 || must_be_own {mount}/images 022
mkdir -m 700 "$(dirname "$image")" 2>/dev/null || true
must_be_own "$(dirname "$image")" 022
if [[ ! -e $image ]]; then
  credentials=$(mktemp -d)
  echo {login} >"$credentials/.credentials"
  if ! ENROOT_CONFIG_PATH=$credentials enroot import --output "$image.$SLURM_JOB_ID" {shlex.quote(uri)} 2>&1 |
    tee "$credentials/said" >&2; then
    rm -f "$image.$SLURM_JOB_ID"
    why=$(sed -n 's/.*\\[ERROR\\] //p' "$credentials/said" | tail -n 1)
    cannot_start "$SLURMD_NODENAME cannot import the image {repository}@{digest}: ${{why:-the log says why}}"
  fi
  chmod go-w "$image.$SLURM_JOB_ID"
  mv "$image.$SLURM_JOB_ID" "$image"
fi
must_be_own "$image" 022
options=(--container-image="$image" --container-mounts={mounts} --no-container-mount-home)"""
    return [*disk, *script.splitlines()]
