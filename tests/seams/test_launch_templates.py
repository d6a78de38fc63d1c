"""Every launch template, read by the model of EC2's API, and by rules of EC2 and EKS that the model does not have."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.seams.api_requests import problems as api_problems
from tests.seams.resolved import deployed, deployed_of
from tests.seams.seam import Planted, Reading, Seam
from tests.seams.shapes import kubernetes_platforms, some_and_all_platforms

KIND = "AWS::EC2::LaunchTemplate"
# What a managed node group sets itself: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
# (read 2026-11-22)
OF_EKS = ("IamInstanceProfile", "InstanceInitiatedShutdownBehavior", "HibernationOptions")

# The model has any text; the API's page names these.
INTERFACE_TYPES = ("interface", "efa", "efa-only")


def problems(template: dict[str, Any]) -> Iterator[str]:
    """Yield what the readers have against the properties of a launch template."""
    yield from api_problems(KIND, template)
    data = template["LaunchTemplateData"]
    yield from (f"EKS: a managed node group sets {key} itself" for key in OF_EKS if key in data)
    if data.get("InstanceMarketOptions", {}).get("MarketType") == "spot":
        yield "EKS: a managed node group asks for Spot itself"
    yield from interface_problems(data)


def interface_problems(data: dict[str, Any]) -> Iterator[str]:
    """Yield what EC2 refuses in the interfaces of a launch.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-efa.html
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_LaunchTemplateInstanceNetworkInterfaceSpecificationRequest.html
    (all read 2026-11-22)
    """
    interfaces = data.get("NetworkInterfaces", [])
    places = [(each["NetworkCardIndex"], each["DeviceIndex"]) for each in interfaces]
    if interfaces and ({"SecurityGroupIds", "SecurityGroups"} & set(data)):
        yield "EC2: the groups of interfaces and of the instance exclude each other"
    if len(places) != len(set(places)):
        yield "EC2: two interfaces are in one place"
    if interfaces and (0, 0) not in places:
        yield "EC2: there is no primary interface"
    for each, place in zip(interfaces, places, strict=True):
        if each["InterfaceType"] not in INTERFACE_TYPES:
            yield f"EC2: {each['InterfaceType']} is no type of an interface"
        if place == (0, 0) and each["InterfaceType"] == "efa-only":
            yield "EC2: the primary interface carries IP"
        if not each.get("Groups"):
            yield f"EC2: the interface at {place} has no security group"
        if "SubnetId" in each:
            yield "EKS: a managed node group chooses the subnet itself"
        if each.get("AssociatePublicIpAddress") and len(interfaces) > 1:
            yield "EC2: several interfaces have no public address"


@pytest.mark.parametrize("names", some_and_all_platforms())
def test_every_launch_template_is_read(names: tuple[str, ...]) -> None:
    made = {name: each.of_type(KIND) for name, each in deployed(names).items()}
    read = {f"{name}/{id}": template for name, each in made.items() for (_, id), template in each.items()}
    assert {name.split("/")[0] for name in read} == set(kubernetes_platforms()) & set(names)
    found = {name: list(problems(template)) for name, template in read.items()}
    assert {name: said for name, said in found.items() if said} == {}


def reading(change: Callable[[dict[str, Any]], None] | None = None) -> Reading:
    """Return a reading of the example's launch template of training nodes after a change of its data."""

    def read(_: Path) -> list[str]:
        template = copy.deepcopy(deployed_of("eks-p5").of_type(KIND)["cluster", "TrainTemplate"])
        if change:
            change(template["LaunchTemplateData"])
        return list(problems(template))

    return read


def planted(error: str, change: Callable[[dict[str, Any]], None]) -> Planted:
    return Planted(error, sound=reading(), broken=reading(change))


def data(**changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda it: it.update(changes)


def interface(number: int, **changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda it: it["NetworkInterfaces"][number].update(changes)


SEAMS = (
    Seam(
        artifact="launch templates",
        rendered_by="stacks/constructs/eks/launch_template.py",
        reader="the API model of botocore, and documented rules of EC2's interfaces and EKS's managed node groups",
        instead="EC2 and EKS run only in AWS.",
        planted=(
            planted("the type of an interface does not exist", interface(1, InterfaceType="efa_only")),
            planted("a key of the metadata options does not exist", data(MetadataOptions={"HopLimit": 1})),
            planted(
                "the tokens of the metadata service are of no known kind", data(MetadataOptions={"HttpTokens": "on"})
            ),
            planted("the primary interface is EFA only", interface(0, InterfaceType="efa-only")),
            planted("two interfaces are in one place", interface(2, NetworkCardIndex=0, DeviceIndex=0)),
            planted("an interface has no security group", interface(3, Groups=[])),
            planted("an interface names a subnet", interface(0, SubnetId="subnet-0123456789abcdef0")),
            planted("the instance has security groups beside its interfaces", data(SecurityGroupIds=["sg-0"])),
            planted("the template names an instance profile", data(IamInstanceProfile={"Name": "nodes"})),
            planted("the template asks for Spot", data(InstanceMarketOptions={"MarketType": "spot"})),
        ),
    ),
)
