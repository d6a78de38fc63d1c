"""`teams`: the teams that share the nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainway.spec.sections.fields import DataPrefix, Login, Name, Principal
from trainway.spec.sections.slurm_user import NumericId
from trainway.spec.values import Section

Borrow = Annotated[bool, Field(description="Allow the team to use idle nodes of other teams.")]


# Of a hundred: how much of what is idle a team gets when several want it.
FAIR_SHARE = {"low": 10, "normal": 50, "high": 100}


class Team(Section):
    """A group of people with a share of the nodes."""

    name: Name
    guarantee: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict,
        description="Number of nodes that the team can always have, by instance type. With the orchestrator eks, a "
        "group of several instance types counts as its first.",
    )
    borrow: Borrow = True
    priority: Literal["low", "normal", "high"] = Field(
        "normal", description="Priority of the team when nodes are scarce."
    )
    members: tuple[Principal, ...] = Field((), description="IAM roles and users that run jobs in the team's namespace.")
    users: tuple[Login, ...] = Field(
        (),
        description="Login names of the team's members on a Slurm cluster. A job without an account uses the first "
        "team of its user.",
    )
    gid: NumericId | None = Field(
        None,
        description="Group ID of the team's group on the nodes of a Slurm cluster, which owns the team's directories. "
        "It cannot change, because files are stored with it. Default: a number that follows from the name.",
    )
    data: tuple[DataPrefix, ...] = Field(
        (),
        description="Prefixes that belong to the team beside its own, for example checkpoints/llama of a run from "
        "before. Only for a bucket with team_prefixes.",
    )

    @property
    def fair_share(self) -> int:
        """Weight of the team when several teams want idle nodes."""
        return FAIR_SHARE[self.priority]
