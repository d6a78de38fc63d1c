"""Every rule is wired, and the ones that need an orchestrator of their own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import pytest

from trainway import spec
from trainway.spec import rules
from trainway.spec.deployment.expiry import OF_A_DAY, of_a_day
from trainway.spec.image.version_rules import VERSION_RULES, requirements_are_listed
from trainway.spec.loader import load_platform
from trainway.spec.network.region_rules import zone_prefix
from trainway.spec.problems import SpecError

# What a function that yields breaches is annotated with.
OF_RULES = {"Iterator[Breach]", "Iterator[tuple[KeyPath, str, str]]"}
HYPERPOD = """\
region: us-west-2
zones: [usw2-az2, usw2-az1]
orchestrator: hyperpod-eks
node_groups:
  - {{name: train, instance_type: {instance_type}, count: 1, capacity: {capacity}}}
"""


def test_every_rule_of_the_package_is_registered() -> None:
    topics = [each.name for each in pkgutil.iter_modules(spec.__path__, f"{spec.__name__}.") if each.ispkg]
    packages = [importlib.import_module(topic) for topic in topics]
    names = [each.name for topic in packages for each in pkgutil.iter_modules(topic.__path__, f"{topic.__name__}.")]
    modules = [rules, *map(importlib.import_module, names)]
    written = {
        function
        for module in modules
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__annotations__.get("return") in OF_RULES
    }
    listed: set[Any] = {*rules.RULES, *VERSION_RULES, requirements_are_listed, *OF_A_DAY, of_a_day}
    assert written == listed, "put @rule before a function that yields breaches of a platform file"
    assert len(rules.RULES) == len(set(rules.RULES))
    assert all(rule.__doc__ for rule in listed)


@pytest.mark.parametrize(
    ("region", "prefix"),
    [
        ("us-east-1", "use1"),
        ("us-west-2", "usw2"),
        ("ap-northeast-1", "apne1"),
        ("ap-southeast-2", "apse2"),
        ("ap-south-1", "aps1"),
        ("eu-central-1", "euc1"),
        ("us-gov-west-1", "usgw1"),
        ("ca-central-1", "cac1"),
    ],
)
def test_zone_ids_begin_with_the_region(region: str, prefix: str) -> None:
    """https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html (read 2026-11-21)"""
    assert zone_prefix(region) == prefix


@pytest.mark.parametrize(
    ("instance_type", "capacity", "reason"),
    [
        ("p5.48xlarge", "{reservation: cr-0123456789abcdef0}", "HyperPod cannot use EC2 capacity reservations"),
        (
            "p5.48xlarge",
            '{training_plan: "arn:aws:sagemaker:us-east-1:111122223333:training-plan/x"}',
            "the training plan is not in us-west-2",
        ),
        (
            "m6i.8xlarge",
            '{training_plan: "arn:aws:sagemaker:us-west-2:111122223333:training-plan/x"}',
            "is not sold as",
        ),
        ("g6e.2xlarge", "bogus", "not a kind of capacity"),
    ],
)
def test_hyperpod_capacity(instance_type: str, capacity: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    file.write_text(HYPERPOD.format(instance_type=instance_type, capacity=capacity))
    with pytest.raises(SpecError, match=reason):
        load_platform(file)
