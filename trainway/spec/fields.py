"""The kinds of value that a platform file is made of, each with the reason and the remedy for a wrong one."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from trainway.spec.services import service_facts


def wrong(reason: str, remedy: str) -> PydanticCustomError:
    """A problem with one value, in the words of its rule; the loader adds file, line and key."""
    # Braces would be read as template fields by pydantic.
    return PydanticCustomError("platform", "{reason}", {"reason": reason, "remedy": remedy})


class Section(BaseModel):
    """A part of the file: frozen once read, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def matches(pattern: str, reason: str, remedy: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise wrong(reason, remedy)
        return value

    return AfterValidator(check)


Name = Annotated[
    str,
    Field(json_schema_extra={"pattern": "^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$"}),
    matches(
        r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?",
        "names become stack, cluster and Kubernetes names, which allow less than this",
        "use up to 30 lower-case letters, digits and hyphens, beginning with a letter",
    ),
]

Region = Annotated[
    str,
    Field(json_schema_extra={"pattern": "^[a-z]{2}(-[a-z]+)+-[0-9]$"}),
    matches(r"[a-z]{2}(-[a-z]+)+-\d", "it is not the form of an AWS Region's code", "write it as in us-west-2"),
]

ZoneId = Annotated[
    str,
    Field(json_schema_extra={"pattern": "^[a-z]+[0-9]-az[0-9]+$"}),
    matches(
        r"[a-z]+\d-az\d+",
        "it is not a zone id; zone names such as us-west-2a mean different places in different accounts",
        "write the id, as in usw2-az2; `aws ec2 describe-availability-zones` lists both",
    ),
]


S3Uri = Annotated[
    str,
    matches(
        r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?",
        "it is not an S3 location",
        "write it as in s3://bucket/prefix/",
    ),
]


def _parse_range(value: Any) -> IPv4Network:
    try:
        network = IPv4Network(value, strict=False)
    except ValueError:
        raise wrong("it is not an IPv4 address range", "write it as in 10.0.0.0/16") from None
    if isinstance(value, str) and value != str(network):
        raise wrong("an address range begins at its first address", f"write {network}")
    return network


def _private_range(network: IPv4Network) -> IPv4Network:
    if not network.is_private:
        raise wrong(
            "it is not a private address range", "choose one inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
        )
    low, high = service_facts().vpc.prefix_lengths
    if not low <= network.prefixlen <= high:
        raise wrong(f"a VPC's range is between /{low} and /{high}", "use a /16 unless addresses are scarce")
    return network


AddressRange = Annotated[IPv4Network, BeforeValidator(_parse_range), AfterValidator(_private_range)]


def _throughput(value: int) -> int:
    known = service_facts().lustre.throughputs
    if value not in known:
        raise wrong("FSx for Lustre does not sell this throughput", f"choose one of {', '.join(map(str, known))}")
    return value


LustreThroughput = Annotated[int, AfterValidator(_throughput)]


def _email(value: str) -> str:
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", value):
        raise wrong("it is not an e-mail address", "write one address, as in ml-oncall@example.com")
    return value


Email = Annotated[str, AfterValidator(_email)]
