"""Every type of the catalogue is launched with the interfaces that the catalogue lays out for it."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest

from stacks.constructs.launch_template import training_launch_template
from tests.synthesis import resources
from trainway.spec.catalogue import load_catalogue
from trainway.spec.platform import NodeGroup

CATALOGUE = load_catalogue()


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Launch template data by instance type, from one stack with a template for each."""
    app = cdk.App(outdir=str(tmp_path_factory.mktemp("templates")))
    stack = cdk.Stack(app, "every-type")
    identifiers = {}
    for number, (name, instance) in enumerate(CATALOGUE.items()):
        group = NodeGroup(name=f"group-{number}", instance_type=name, count=1)
        template = training_launch_template(
            stack, f"T{number}", name="test", group=group, instance=instance, pods=32, security_group_ids=["sg-0"]
        )
        identifiers[stack.get_logical_id(template)] = name
    found = resources(app.synth().get_stack_by_name("every-type").template, "AWS::EC2::LaunchTemplate")
    return {identifiers[identifier]: each["LaunchTemplateData"] for identifier, each in found.items()}


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_interfaces_are_the_catalogues_layout(launched: dict[str, dict[str, Any]], name: str) -> None:
    interfaces = launched[name]["NetworkInterfaces"]
    assert [(i["NetworkCardIndex"], i["DeviceIndex"], i["InterfaceType"]) for i in interfaces] == [
        (i.network_card_index, i.device_index, i.kind.value) for i in CATALOGUE[name].interfaces
    ]
