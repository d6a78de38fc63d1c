"""`kubernetes.endpoint`: public access to the Kubernetes API."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from trainway.spec.facts.services import service_facts
from trainway.spec.sections.fields import Range
from trainway.spec.values import Section, wrong

EVERYBODY = IPv4Network("0.0.0.0/0")


def _public_range(network: IPv4Network) -> IPv4Network:
    """Refuse what EKS refuses: https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html.

    "The block cannot include reserved addresses" (read 2026-11-22). The ranges for documentation are allowed here, so
    that examples can be checked.
    """
    if network != EVERYBODY and (network.is_loopback or network.is_link_local or network.is_multicast):
        raise wrong(
            "no host on the internet has an address in this range", "write the public addresses of your network"
        )
    if any(network.subnet_of(IPv4Network(each)) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")):
        reason = "it is a private range, and from the internet calls come from public addresses"
        raise wrong(
            reason, "write the public addresses of your network; inside the VPC the endpoint answers in any case"
        )
    return network


class Endpoint(Section):
    """Public CIDR blocks that reach the Kubernetes API. It is always reachable from inside the VPC."""

    public_to: tuple[Annotated[Range, AfterValidator(_public_range)], ...] = Field(
        description="Public IPv4 CIDR blocks that reach the Kubernetes API, for example [198.51.100.0/24]. 0.0.0.0/0 "
        "means everybody.",
        min_length=1,
        max_length=service_facts().eks.public_access_ranges,
    )


def _from_word(value: Any) -> Any:
    if value == "private":
        return None
    if isinstance(value, dict | Endpoint):
        return value
    raise wrong(
        "it is neither `private` nor a list of ranges",
        "write `endpoint: private`, or for example `endpoint: {public_to: [198.51.100.0/24]}`",
    )


EndpointOrPrivate = Annotated[
    Endpoint | None, BeforeValidator(_from_word, json_schema_input_type=Literal["private"] | Endpoint)
]
