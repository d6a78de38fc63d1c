"""`network`: the VPC."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any, Literal

from pydantic import Field

from trainway.spec.sections.existing import ExistingNetwork
from trainway.spec.sections.fields import AddressRange
from trainway.spec.values import Section

Access = Literal["private", "closed"]


class Network(Section):
    """The VPC, and its way out."""

    cidr: AddressRange = Field(
        IPv4Network("10.0.0.0/16"),
        description="The address range that subnets are made in: the new VPC's own, or one for an existing VPC.",
    )
    access: Access = Field(
        "private",
        description="private: nodes have no public address and reach the outside through NAT. closed: there is no way "
        "out and none in; docs/closed-network.md says what to bring in before the deploy.",
    )

    existing: ExistingNetwork | None = Field(
        None, description="A VPC of yours to use instead of a new one; `trainway adopt` writes this section."
    )

    @property
    def is_closed(self) -> bool:
        """True where nothing in the VPC reaches the internet, nor the internet anything in the VPC."""
        return self.access == "closed"


def access_from_word(value: Any) -> Any:
    return {"access": value} if isinstance(value, str) else value
