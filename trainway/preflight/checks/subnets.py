"""Subnets of yours that the platform uses."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.network.addressing import plan_addresses
from trainway.spec.problems import KeyPath


@check("ec2:DescribeSubnets")
def subnets(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each adopted subnet is in the VPC and the zone of the file, and has as many free addresses as are needed."""
    existing = inquiry.platform.network.existing
    if existing is None or not existing.subnets:
        return
    here = [{"Name": "vpc-id", "Values": [existing.vpc_id]}]
    pages = inquiry.aws.pages("ec2", "describe_subnets", Filters=here)
    found = {each["SubnetId"]: each for page in pages for each in page["Subnets"]}
    for planned in plan_addresses(inquiry.platform, inquiry.catalogue).subnets:
        if planned.adopted is None:
            continue
        theirs, key = planned.adopted, ("network", "existing", "subnets", planned.name)
        real = found.get(theirs.id)
        if real is None:
            yield error(
                f"the VPC {existing.vpc_id} has no subnet {theirs.id}",
                why=f"the platform uses it as {planned.name}",
                fix=f"`trainway adopt {existing.vpc_id}` shows what the VPC has now",
                key=(*key, "id"),
            )
            continue
        for name, said, now in (
            ("zone", theirs.zone, real["AvailabilityZoneId"]),
            ("cidr", str(theirs.cidr), real["CidrBlock"]),
        ):
            if said != now:
                where: KeyPath = (*key, name)
                yield error(
                    f"{theirs.id} has the {name} {now}",
                    why=f"the file says {said}",
                    fix=f"run `trainway adopt {existing.vpc_id}` again",
                    key=where,
                )
        free = real["AvailableIpAddressCount"]
        # A platform that is deployed has taken its addresses already.
        if free < planned.needed and not inquiry.is_deployed:
            yield error(
                f"{theirs.id} has {free} free addresses",
                why=f"{planned.name} needs {planned.needed}: {'; '.join(_needs(planned.needs))}",
                fix="adopt a larger subnet, free addresses, or leave the subnet out, so that the deploy creates one",
                key=key,
            )


def _needs(needs: tuple[object, ...]) -> list[str]:
    return [f"{each.addresses} ({each.what})" for each in needs]  # type: ignore[attr-defined]
