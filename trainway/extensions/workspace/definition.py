"""What a workspace is, before it is rendered: everything that can be wrong is found here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from trainway.extensions.workspace.devices import Devices, devices_of_workspace, is_divided
from trainway.launch.kubernetes.options import Priority
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.instance import Instance
from trainway.spec.handoff import HandOff, Nodes

# A person's working day; at most a week, because what nobody ends is paid for all the same.
HOURS = 8
MOST_HOURS = 7 * 24
# An idle GPU is paid for like a busy one.
IDLE_MINUTES = 60
_LONGEST_OWNER = 30
_NAME = "workspace-"


@dataclass(frozen=True)
class Workspace:
    """A workspace of `owner`, with some of the devices of a node of `group`, for at most `hours` hours.

    It ends earlier after `idle_minutes` minutes without use, unless that is 0. `shared_memory_gib` limits /dev/shm in
    GiB, which counts as memory of the workspace. `index` is where pip finds JupyterLab if the image does not have it;
    None is pip's own configuration.
    """

    owner: str
    hand_off: HandOff
    image: str
    group: Nodes
    devices: Devices
    shared_memory_gib: int
    team: str | None = None
    priority: Priority | None = None
    hours: int = HOURS
    idle_minutes: int = IDLE_MINUTES
    index: str | None = None

    @property
    def name(self) -> str:
        """The name of every Kubernetes object of a workspace: one for each person and team."""
        return name_of(self.owner)

    @property
    def home(self) -> PurePosixPath:
        """The owner's home directory on the file system, which stays when the workspace ends."""
        return PurePosixPath(self.hand_off.mount_path) / "workspaces" / self.owner


@dataclass(frozen=True)
class WorkspaceRequest:
    """The workspace that a person asks for, before the platform is known.

    Without `group`, the workspace is on the smallest nodes that have as many `accelerators`. Without
    `shared_memory_gib`, half of its memory can be shared memory. The other fields are those of `Workspace`.
    """

    owner: str
    team: str | None = None
    group: str | None = None
    accelerators: int = 1
    priority: Priority | None = None
    hours: int = HOURS
    idle_minutes: int = IDLE_MINUTES
    shared_memory_gib: int | None = None
    index: str | None = None


def define(
    hand_off: HandOff, image: Callable[[Nodes], str], catalogue: Catalogue, asked: WorkspaceRequest
) -> Workspace:
    """Return the workspace that is asked for. `image` returns the image to use on nodes of a group.

    Raises UsageError for what the platform of the hand-off does not have.
    """
    owner, team, hours = asked.owner, asked.team, asked.hours
    label = name_of(owner).removeprefix(_NAME)
    if not 1 <= hours <= MOST_HOURS:
        raise _cannot(owner, f"it would last {hours} hours", f"choose 1 to {MOST_HOURS}")
    if not 0 <= asked.idle_minutes <= hours * 60:
        raise _cannot(owner, f"it would end after {asked.idle_minutes} idle minutes", f"choose 0 to {hours * 60}")
    check_orchestrator(hand_off)
    if team is not None and team not in hand_off.teams:
        known = ", ".join(hand_off.teams)
        raise _cannot(
            owner, f"{hand_off.platform} has no team {team}", f"use one of {known}" if known else "leave the team out"
        )
    if asked.priority and not hand_off.teams:
        raise _cannot(owner, f"{hand_off.platform} has no teams, and so no queue", "leave the priority out")
    chosen = _group(hand_off, catalogue, asked)
    devices = devices_of_workspace(chosen, catalogue[chosen.instance_type], asked.accelerators)
    if isinstance(devices, str):
        raise _cannot(owner, devices, "ask for another number with --accelerators, or name a --group")
    shared = max(1, devices.memory_gib // 2) if asked.shared_memory_gib is None else asked.shared_memory_gib
    if not 1 <= shared <= devices.memory_gib:
        why = f"{shared} GiB of shared memory would be of {devices.memory_gib} GiB of memory"
        raise _cannot(owner, why, f"choose 1 to {devices.memory_gib} with --shared-memory")
    return Workspace(
        owner=label,
        hand_off=hand_off,
        image=image(chosen),
        group=chosen,
        devices=devices,
        shared_memory_gib=shared,
        team=team,
        priority=asked.priority,
        hours=hours,
        idle_minutes=asked.idle_minutes,
        index=asked.index,
    )


def check_orchestrator(hand_off: HandOff) -> None:
    """Raise UsageError if the platform has no Kubernetes for workspaces."""
    if not hand_off.cluster.namespaces:
        why = f"{hand_off.platform} is orchestrated by {hand_off.orchestrator}, and workspaces are pods"
        fix = "take a node with `srun --gres=gpu:1 --pty bash` on the login node"
        raise usage_error("there are no workspaces", why=why, fix=fix)
    if hand_off.file_system is None:
        why = f"{hand_off.platform} has no file system, on which a workspace keeps the home directory of its owner"
        fix = "set storage.lustre of the platform file and deploy, or take a node with `trainway launch --interactive`"
        raise usage_error("there are no workspaces", why=why, fix=fix)


def name_of(owner: str) -> str:
    """Return the name of an owner's workspace. Raises UsageError if the owner's name has no letter."""
    label = re.sub(r"[^a-z0-9]+", "-", owner.lower()).strip("-")[:_LONGEST_OWNER].rstrip("-")
    if not label:
        raise _cannot(owner, "a workspace is called after its owner, and that name has no letter", "name another owner")
    return f"{_NAME}{label}"


def _group(hand_off: HandOff, catalogue: Catalogue, asked: WorkspaceRequest) -> Nodes:
    """Return the node group that is named, or the one with the smallest nodes that have as many accelerators."""
    groups = hand_off.node_groups
    if asked.group is not None:
        found = next((group for group in groups if group.name == asked.group), None)
        if found is None:
            known = ", ".join(group.name for group in groups)
            why = f"{hand_off.platform} has no node group {asked.group}"
            raise _cannot(asked.owner, why, f"name one of {known}")
        return found
    return min(groups, key=lambda group: _size(group, catalogue[group.instance_type], asked.accelerators))


def _size(group: Nodes, instance: Instance, accelerators: int) -> tuple[bool, bool, bool, int, int]:
    """Return what orders groups: those that will do first, then divided GPUs, then the smallest accelerators and nodes.

    A workspace has a part of a node, so that an accelerator's memory says more about its price than the node's size.
    """
    chip = instance.accelerator
    fits = chip is not None and not isinstance(devices_of_workspace(group, instance, accelerators), str)
    return (not fits, chip is None, not is_divided(group), chip.memory_gib if chip else 0, chip.count if chip else 0)


def _cannot(owner: str, why: str, fix: str) -> UsageError:
    return usage_error(f"there is no workspace for {owner}", why=why, fix=fix)
