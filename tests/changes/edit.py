"""An edit of a platform's file: the file before it, its changes, and its expectations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from trainway.spec.loader import load_versions

Document = dict[str, Any]
Change = Callable[[Document], None]
Lines = tuple[str, ...]
ORCHESTRATORS = ("eks", "hyperpod-eks", "hyperpod-slurm")
KUBERNETES, HYPERPOD = ("eks", "hyperpod-eks"), ("hyperpod-eks", "hyperpod-slurm")
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
KEY_2 = KEY.replace("1234abcd", "5678abcd")
SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:first-AbCdEf"
SECRET_2 = SECRET.replace("first", "second")
OWN_BASE = f"nvcr.io/nvidia/pytorch:26.10-py3@sha256:{'0' * 64}"
OWN_IMAGE = f"111122223333.dkr.ecr.us-west-2.amazonaws.com/jobs@sha256:{'0' * 64}"
INDEX, PROXY = "https://packages.example.org/simple", "http://proxy.example.com:3128"
IMAGES = load_versions().images[0]
assert IMAGES.packages
# The first day that image.refresh can name.
NEXT_DAY = IMAGES.packages + timedelta(days=1)
SLURM_USERS = {"users": [{"name": "ana", "uid": 20001}]}
ROLE = "arn:aws:iam::111122223333:role/Researcher"


def base(name: str, orchestrator: str) -> Document:
    """Return the platform file before and after each edit. Its node groups have two nodes, one, none, and one."""
    document: Document = {
        "name": name,
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": orchestrator,
        "node_groups": [group("aa", count=2), group("bb"), group("cc", count=0), group("dd")],
        # Teams share everything on purpose, so that an edit of the teams gives nobody walls.
        "storage": {
            "bucket": {"team_prefixes": False},
            "lustre": {"capacity_tib": 4.8, "throughput_mbps_per_tib": 1000},
        },
        "observability": {"metrics": "none"},
    }
    if orchestrator != "hyperpod-slurm":
        document["kubernetes"] = {"admins": ["arn:aws:iam::111122223333:role/Admin"], "version": "1.34"}
    if orchestrator == "eks":
        document["teams"] = [{"name": "red"}, {"name": "blue"}]
    return document


def group(name: str, **settings: Any) -> Document:
    return {"name": name, "instance_type": "g6e.8xlarge", "count": 1, "max_count": 4} | settings


@dataclass(frozen=True)
class Edit:
    """One edit, in the steps that it takes; afterwards the file is what it was before.

    `moves` is a pattern of what the steps may create, delete, or replace, as `role/logical id`; empty for nothing.
    `refused` is a part of the reason if the steps are refused for good. `stays` is one if the way back is. An edit that
    is `told_only` is not deployed, because the emulator has no such update.

    `trainway diff` tells the first step. `says` are lines of its text, and `says_on` further ones by the orchestrator.
    `loses` are the names that it refuses to lose until they are allowed, with their keys in the file, and `back_loses`
    those names of the way back. `gone` are the names of everything that the platform has a word for and that is
    replaced or deleted.
    """

    steps: tuple[Change, ...]
    moves: str = ""
    loses: Mapping[str, str] = field(default_factory=dict)
    back_loses: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    says: Lines = ()
    says_on: Mapping[str, Lines] = field(default_factory=dict)
    refused: str | None = None
    stays: str | None = None
    told_only: bool = False
    on: tuple[str, ...] = ORCHESTRATORS

    def documents(self, name: str, orchestrator: str) -> list[Document]:
        """Return the file after each step, every one made from the base."""
        found = []
        for step in self.steps:
            document = base(name, orchestrator)
            step(document)
            found.append(document)
        return found

    def lines(self, orchestrator: str) -> Lines:
        return self.says + self.says_on.get(orchestrator, ())

    def gone_on(self, orchestrator: str) -> set[str]:
        """Return `gone` on an orchestrator. Node groups of HyperPod have no launch templates."""
        return {each for each in self.gone if orchestrator == "eks" or not each.endswith("Template")}


def with_groups(*groups: Document) -> Change:
    return lambda document: document.update(node_groups=list(groups))


def with_keys(*path: str, **values: Any) -> Change:
    def change(document: Document) -> None:
        section = document
        for key in path:
            section = section.setdefault(key, {})
        section.update(values)

    return change


def both(*changes: Change) -> Change:
    def change(document: Document) -> None:
        for each in changes:
            each(document)

    return change


def teams_with(queues: str) -> Change:
    def change(document: Document) -> None:
        document["teams"] = [{"name": "red"}]
        document["kubernetes"] |= {"queues": queues, "gpu_devices": "operator"}

    return change


def with_run_ai(**section: str) -> Change:
    def change(document: Document) -> None:
        document["teams"] = [{"name": "red", "guarantee": {"g6e.8xlarge": 1}}, {"name": "blue"}]
        document["kubernetes"] |= {"run_ai": section, "gpu_devices": "operator", "system_nodes": {"count": 4}}

    return change


def team_prefixes(shared: list[str] | None = None, data: list[str] | None = None) -> Change:
    def change(document: Document) -> None:
        document["teams"] = [{"name": "red"} | ({"data": data} if data else {})]
        document["storage"]["bucket"] = {"team_prefixes": True} | ({"shared": shared} if shared else {})
        document["iam"] = {"training_jobs": True}

    return change


def slurm_prefixes(*teams: str) -> Change:
    def change(document: Document) -> None:
        document["slurm"] = SLURM_USERS
        document["teams"] = [{"name": name, "users": ["ana"]} for name in teams]
        document["storage"]["bucket"] = {"team_prefixes": True}

    return change


def team_directories(chosen: bool) -> Change:
    def change(document: Document) -> None:
        team_prefixes()(document)
        document["storage"]["lustre"] |= {"mirror": False, "team_directories": chosen}

    return change


def belonging_to(*names: str) -> str:
    """What belongs to node groups of these names."""
    return rf"cluster/(Network)?(Nodes)?({'|'.join(name.capitalize() for name in names)})[A-Z].*"
