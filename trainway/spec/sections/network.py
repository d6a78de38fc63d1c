"""`network`: the VPC."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from trainway.spec.sections.existing import ExistingNetwork
from trainway.spec.sections.fields import PORT, AddressRange, reachable_host
from trainway.spec.values import Matches, Section

Access = Literal["private", "closed"]


ProxyAddress = Annotated[
    str,
    Matches(
        rf"https?://[A-Za-z0-9.-]+{PORT}",
        "it is not the address of a proxy without a login; builds would show the login",
        "write the scheme, the host, and the port, as in http://proxy.example.com:3128",
    ),
    AfterValidator(reachable_host),
]
NoProxy = Annotated[
    str,
    Matches(
        rf"\.?[A-Za-z0-9][A-Za-z0-9.-]*({PORT}|/([12]?\d|3[0-2]))?",
        "it is not a host, a domain, or an address range",
        "write it as in mirror.example.com, .example.com, or 10.0.0.0/8",
    ),
]


class Proxy(Section):
    """The proxy through which builds reach the internet."""

    https: ProxyAddress = Field(description="Proxy for https:// addresses, for example http://proxy.example.com:3128.")
    http: ProxyAddress | None = Field(None, description="Proxy for http:// addresses. Default: that of `https`.")
    no_proxy: tuple[NoProxy, ...] = Field(
        (),
        description="Hosts, domains, and address ranges that builds reach without the proxy, for example .example.com, "
        "beside the Kubernetes API and the builds' own machine.",
    )


class Network(Section):
    """The VPC and its access to the internet."""

    cidr: AddressRange = Field(
        IPv4Network("10.0.0.0/16"),
        description="CIDR block of the new VPC. With an existing VPC, the CIDR block in which new subnets are created.",
    )
    access: Access = Field(
        "private",
        description="private gives nodes no public address, and access to the internet through NAT. closed gives no "
        "access to the internet in either direction. docs/closed-network.md lists what to supply before the deploy.",
    )

    existing: ExistingNetwork | None = Field(
        None, description="A VPC of yours to use instead of a new one; `trainway adopt` writes this section."
    )

    proxy: Proxy | None = Field(
        None,
        description="Proxy of the delivery's builds, which then run in the VPC. Default: none. The authorities that "
        "builds and nodes trust are in lifecycle_scripts/yours/certificates.",
    )

    @property
    def is_closed(self) -> bool:
        """Whether the VPC has no route to or from the internet."""
        return self.access == "closed"


def access_from_word(value: Any) -> Any:
    return {"access": value} if isinstance(value, str) else value
