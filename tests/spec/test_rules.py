"""Every rule is wired, and the ones that need an orchestrator of their own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from trainway.spec import rules
from trainway.spec.loader import load_platform
from trainway.spec.problems import SpecError
from trainway.spec.rules.expiry import OF_A_DAY, of_a_day
from trainway.spec.rules.regions import zone_prefix
from trainway.spec.rules.rule import Breach
from trainway.spec.rules.versions import VERSION_RULES, requirements_are_listed

HYPERPOD = """\
region: us-west-2
zones: [usw2-az2, usw2-az1]
orchestrator: hyperpod-eks
node_groups:
  - {{name: train, instance_type: {instance_type}, count: 1, capacity: {capacity}}}
"""


def test_every_rule_of_the_package_is_registered() -> None:
    names = [f"{rules.__name__}.{each.name}" for each in pkgutil.iter_modules(rules.__path__)]
    modules = [importlib.import_module(name) for name in names]
    written = {
        function
        for module in modules
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if get_type_hints(function).get("return") == Iterator[Breach]
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
