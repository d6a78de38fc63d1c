"""What a workspace is, before it is rendered: everything that can be wrong is found here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from trainway.launch.kubernetes.options import Priority
from trainway.launch.workspace.devices import Devices, devices_of_workspace, is_divided
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff, Nodes

# A person's working day; at most a week, because what nobody ends is paid for all the same.
HOURS = 8
MOST_HOURS = 7 * 24
_LONGEST_OWNER = 30
_NAME = "workspace-"


@dataclass(frozen=True)
class Workspace:
    """A workspace of `owner`'s on the nodes of a group, with some of a node's devices, for so many `hours`.

    `index` is where pip finds JupyterLab, if the image does not have it; None is pip's own configuration.
    """

    owner: str
    hand_off: HandOff
    image: str
    group: Nodes
    devices: Devices
    team: str | None = None
    priority: Priority | None = None
    hours: int = HOURS
    index: str | None = None

    @property
    def name(self) -> str:
        """The name of every Kubernetes object of a workspace: one for each person and team."""
        return name_of(self.owner)

    @property
    def home(self) -> PurePosixPath:
        """The owner's home directory on the file system, which stays when the workspace ends."""
        return PurePosixPath(self.hand_off.file_system.mount_path) / "workspaces" / self.owner


def define(
    hand_off: HandOff,
    image: str,
    catalogue: Catalogue,
    *,
    owner: str,
    team: str | None = None,
    group: str | None = None,
    accelerators: int = 1,
    priority: Priority | None = None,
    hours: int = HOURS,
    index: str | None = None,
) -> Workspace:
    """A workspace on the platform of a hand-off.

    Without `group`, on the first whose GPUs are divided, or else the first that has any. Raises UsageError for what the
    platform does not have.
    """
    label = name_of(owner).removeprefix(_NAME)
    if not 1 <= hours <= MOST_HOURS:
        raise _cannot(owner, f"it would last {hours} hours", f"choose 1 to {MOST_HOURS}")
    if not hand_off.cluster.namespaces:
        why = f"{hand_off.platform} is orchestrated by {hand_off.orchestrator}, and workspaces are pods"
        raise _cannot(owner, why, "take a node with `srun --gres=gpu:1 --pty bash` on the login node")
    if team is not None and team not in hand_off.teams:
        known = ", ".join(hand_off.teams)
        raise _cannot(
            owner, f"{hand_off.platform} has no team {team}", f"use one of {known}" if known else "leave the team out"
        )
    if priority and not hand_off.teams:
        raise _cannot(owner, f"{hand_off.platform} has no teams, and so no queue", "leave the priority out")
    chosen = _group(hand_off, catalogue, group, owner)
    devices = devices_of_workspace(chosen, catalogue[chosen.instance_type], accelerators)
    if isinstance(devices, str):
        raise _cannot(owner, devices, "ask for another number with --accelerators, or name a --group")
    return Workspace(label, hand_off, image, chosen, devices, team, priority, hours, index)


def name_of(owner: str) -> str:
    """What the workspace of an owner is called; raises UsageError for an owner without a letter."""
    label = re.sub(r"[^a-z0-9]+", "-", owner.lower()).strip("-")[:_LONGEST_OWNER].rstrip("-")
    if not label:
        raise _cannot(owner, "a workspace is called after its owner, and that name has no letter", "name another owner")
    return f"{_NAME}{label}"


def _group(hand_off: HandOff, catalogue: Catalogue, name: str | None, owner: str) -> Nodes:
    groups = hand_off.node_groups
    if name is not None:
        found = next((group for group in groups if group.name == name), None)
        if found is None:
            known = ", ".join(group.name for group in groups)
            raise _cannot(owner, f"{hand_off.platform} has no node group {name}", f"name one of {known}")
        return found
    accelerated = [group for group in groups if catalogue[group.instance_type].accelerator]
    return next((group for group in groups if is_divided(group)), (accelerated or list(groups))[0])


def _cannot(owner: str, why: str, fix: str) -> UsageError:
    return usage_error(f"there is no workspace for {owner}", why=why, fix=fix)
