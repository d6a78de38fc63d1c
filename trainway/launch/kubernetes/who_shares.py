"""Whose job it is, as the cluster is told: the namespace, and the labels by which whoever shares the nodes goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trainway.launch.program.request import Request
from trainway.manifests.kai import QUEUE_LABEL, SCHEDULER
from trainway.manifests.run_ai import PROJECT_LABEL, RUN_AI_SCHEDULER
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff

# One label on every object of a run, pods as well, whatever made them.
RUN_LABEL = "trainway.dev/run"
MANAGED_BY = {"app.kubernetes.io/managed-by": "trainway"}
KUEUE_PRIORITY = "kueue.x-k8s.io/priority-class"
# https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/priority/README.md (read 2026-11-21)
KAI_PRIORITY = "priorityClassName"


Sharing = Literal["kai", "run-ai", "task governance", "kueue"]
"""What divides the nodes of a platform between its teams."""


@dataclass(frozen=True)
class JobShare:
    """Namespace and labels of the objects of a job, and what shares the nodes: `sharing`.

    `scheduler` is the name of the scheduler of its pods. None is the default scheduler of Kubernetes.
    """

    sharing: Sharing
    namespace: str
    labels: Mapping[str, str]
    scheduler: str | None


def share_of(request: Request, priority: str | None) -> JobShare:
    """Return the namespace and the labels of a job. Raises UsageError if the team is missing."""
    hand_off, team = request.hand_off, request.program.team
    what = f"{request.program.name} cannot run on {hand_off.platform}"
    namespace = namespace_of_team(hand_off, team, what=what, nobody="the job file", key="`team`")
    labels = labels_of(hand_off, team, request.run, priority)
    return JobShare(shared_nodes(hand_off), namespace, labels, scheduler(hand_off))


def shared_nodes(hand_off: HandOff) -> Sharing:
    """Return what divides the nodes between the teams."""
    if QUEUE_LABEL in hand_off.cluster.job_labels:
        return "kai"
    if PROJECT_LABEL in hand_off.cluster.job_labels:
        return "run-ai"
    return "task governance" if hand_off.cluster.job_labels else "kueue"


def namespace_of_team(hand_off: HandOff, team: str | None, *, what: str, nobody: str, key: str) -> str:
    """Return a team's namespace. The error where no team is named tells `nobody` to set `key`."""
    if hand_off.teams and team is None and len(hand_off.teams) > 1:
        fix = f"set {key} to one of {', '.join(hand_off.teams)}"
        raise usage_error(what, why=f"its nodes are the teams', and {nobody} names none", fix=fix)
    if not hand_off.cluster.namespaces:
        why = f"it is orchestrated by {hand_off.orchestrator}, which has no Kubernetes"
        raise usage_error(what, why=why, fix="launch with --target slurm")
    return namespace_of(hand_off, team)


def namespace_of(hand_off: HandOff, team: str | None) -> str:
    """Return the namespace of a team, or the first one for no team and an unknown team."""
    # Teams and namespaces are in one order, the platform file's (trainway/manifests/namespace.py).
    of_team = dict(zip(hand_off.teams, hand_off.cluster.namespaces, strict=False))
    return of_team[team] if team in of_team else hand_off.cluster.namespaces[0]


def labels_of(hand_off: HandOff, team: str | None, run: str, priority: str | None) -> dict[str, str]:
    """Return the labels of anything that runs in a team's namespace, by the name of its run."""
    team = team or next(iter(hand_off.teams), "")
    queue = {key: value.replace("{team}", team) for key, value in hand_off.cluster.job_labels.items()}
    return {RUN_LABEL: run, **MANAGED_BY, **queue, **_priority_label(hand_off, priority)}


def scheduler(hand_off: HandOff) -> str | None:
    """Return the name of the scheduler of pods. None is the default scheduler of Kubernetes."""
    return {"kai": SCHEDULER, "run-ai": RUN_AI_SCHEDULER}.get(shared_nodes(hand_off))


def _priority_label(hand_off: HandOff, priority: str | None) -> dict[str, str]:
    """Return the label of a priority. Task governance appends `-priority` to the names in its policy.

    https://github.com/aws/sagemaker-hyperpod-cli/blob/main/examples/end_to_end_walkthrough/03-task-governance/00-task-governance.md
    (read 2026-11-21)
    """
    if priority is None:
        return {}
    shared = shared_nodes(hand_off)
    if shared == "kai":
        return {KAI_PRIORITY: priority}
    return {KUEUE_PRIORITY: f"{priority}-priority" if shared == "task governance" else priority}
