"""`check`, the stacks, and cfn-lint say the same of every instance type, with every orchestrator, in every Region.

cfn-lint's own lists are read here, not the table that `check` reads. A template is synthesized for a few cells only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import pytest

from tests.data_files import installed_file
from tests.synthesis import EXAMPLES, templates_of
from trainway.spec.capacity.rules import NOT_TAKEN, capacity_fits_the_orchestrator
from trainway.spec.deployment.published_lists import EC2_TYPE, HYPERPOD_TYPE, ignored_checks, unlisted
from trainway.spec.facts.catalogue import CapacityKind, load_catalogue
from trainway.spec.facts.offerings import load_offerings
from trainway.spec.facts.services import service_facts
from trainway.spec.hyperpod.rules import hyperpod_offers_the_types
from trainway.spec.network.region_rules import (
    hyperpod_is_in_the_region,
    types_are_offered_in_the_zone,
    types_are_sold_on_demand,
)
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import CapacityBlock, Reservation, TrainingPlan
from trainway.spec.sections.orchestrator import Orchestrator

SCHEMAS = installed_file("cfnlint", "data/schemas")
CATALOGUE, OFFERINGS = load_catalogue(), load_offerings()
BLOCK = "cr-0123456789abcdef0"
RULES = (
    capacity_fits_the_orchestrator,
    hyperpod_is_in_the_region,
    hyperpod_offers_the_types,
    types_are_offered_in_the_zone,
    types_are_sold_on_demand,
)
# The types that have a line of their own in the table, of a family without accelerators the first type as well, and all
# with accelerators: the others are where their families are.
LINES = {*OFFERINGS.offered.lines, *OFFERINGS.on_demand.lines, *OFFERINGS.hyperpod.lines}
FIRSTS = {name.partition(".")[0]: name for name in reversed(list(CATALOGUE))}
TYPES = [name for name in CATALOGUE if CATALOGUE[name].accelerator or name in LINES or name in FIRSTS.values()]
# A type of each kind: sold everywhere, on demand in some Regions, as blocks elsewhere, with a plan alone, and small.
SOME = ("p5.48xlarge", "p5e.48xlarge", "p6-b300.48xlarge", "trn1.32xlarge", "g6e.xlarge", "g4dn.metal", "m8i.2xlarge")


@cache
def listed(kind: str) -> dict[str, set[str]]:
    """cfn-lint's instance types by Region."""
    by_region = json.loads(SCHEMAS.joinpath("extensions", kind, "instancetype_enum.json").read_text(encoding="utf-8"))
    return {region: set(each["enum"]) for region, each in by_region.items() if isinstance(each, dict)}


@cache
def registry(region: str) -> set[str] | None:
    """The resource types of CloudFormation's registry in a Region, or None if cfn-lint does not know the Region."""
    file = SCHEMAS.joinpath("providers", f"{region}.json")
    return set(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None


BASE = Platform.model_validate(
    {
        "name": "atlas",
        "region": "us-west-2",
        "zones": ["usw2-az1"],
        "node_groups": [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}],
    }
)


def bought(kind: CapacityKind, region: str) -> Any:
    match kind:
        case CapacityKind.CAPACITY_BLOCK:
            return CapacityBlock(capacity_block=BLOCK)
        case CapacityKind.RESERVATION:
            return Reservation(reservation=BLOCK)
        case CapacityKind.TRAINING_PLAN:
            return TrainingPlan(training_plan=f"arn:aws:sagemaker:{region}:111122223333:training-plan/a")
        case _:
            return kind.value


def cells(names: Iterable[str], orchestrator: Orchestrator) -> Iterator[Platform]:
    """A platform of each type in each Region, bought in each way, in the first zone that has it."""
    for region, zones in OFFERINGS.zones.items():
        at = BASE.model_copy(update={"region": region, "orchestrator": orchestrator})
        for name in names:
            having = OFFERINGS.zones_with(name, region)
            order = (*having, *(zone for zone in zones if zone not in having)) or ("unknown-az1",)
            for kind in CATALOGUE[name].capacity_kinds:
                group = BASE.node_groups[0].model_copy(update={"instance_type": name, "capacity": bought(kind, region)})
                yield at.model_copy(update={"zones": order, "node_groups": (group,)})


def complaints(platform: Platform) -> list[str]:
    """What cfn-lint says of the instance types in the templates, by its own lists, less what it is told to ignore."""
    ignored = {check for checks in ignored_checks(platform).values() for check in checks}
    (group,) = platform.node_groups
    if platform.orchestrator.is_hyperpod:
        check, name, there = HYPERPOD_TYPE, f"ml.{group.instance_type}", listed("aws_sagemaker_cluster")
    elif isinstance(group.capacity, CapacityBlock):
        check, name, there = EC2_TYPE, group.instance_type, listed("aws_ec2_instance")
    else:
        return []  # the type stands in a node group of EKS, which cfn-lint compares with nothing
    unknown = platform.region in there and name not in there[platform.region]
    return [check] if unknown and check not in ignored else []


@pytest.mark.parametrize("orchestrator", Orchestrator)
@pytest.mark.parametrize(
    "names", [pytest.param(SOME, id="some"), pytest.param(tuple(TYPES), id="every", marks=pytest.mark.exhaustive)]
)
def test_what_check_accepts_cfn_lint_accepts(names: tuple[str, ...], orchestrator: Orchestrator) -> None:
    accepted, refused = 0, 0
    for platform in cells(names, orchestrator):
        breaches = [breach for rule in RULES for breach in rule(platform, CATALOGUE)]
        (group,), region = platform.node_groups, platform.region
        cell = f"{group.instance_type}, {group.capacity}, {region}"
        assert all(key and reason and remedy for key, reason, remedy in breaches), cell
        if breaches:
            refused += 1
            continue
        accepted += 1
        assert complaints(platform) == [], cell
        if group.capacity == "on-demand" and CATALOGUE[group.instance_type].accelerator:
            # What is accepted on demand has a price, as far as the lists know the Region and the type at all.
            prices = listed("aws_sagemaker_cluster" if orchestrator.is_hyperpod else "aws_ec2_instance")
            name = f"ml.{group.instance_type}" if orchestrator.is_hyperpod else group.instance_type
            known = region in prices and any(name in types for types in prices.values())
            assert not known or name in prices[region] or not OFFERINGS.zones[region], cell
    assert accepted > 50 and refused > 50


@pytest.mark.parametrize("orchestrator", Orchestrator)
def test_what_check_refuses_on_demand_is_nowhere_in_cfn_lints_list(orchestrator: Orchestrator) -> None:
    prices = listed("aws_sagemaker_cluster" if orchestrator.is_hyperpod else "aws_ec2_instance")
    hyperpod = service_facts().hyperpod.regions
    for platform in cells(SOME, orchestrator):
        (group,), region = platform.node_groups, platform.region
        if group.capacity != "on-demand" or (orchestrator.is_hyperpod and region not in hyperpod):
            continue
        name = f"ml.{group.instance_type}" if orchestrator.is_hyperpod else group.instance_type
        if any(True for rule in RULES for _ in rule(platform, CATALOGUE)) and OFFERINGS.zones[region]:
            # HyperPod has prices of types that EC2 does not have there: see test_offerings.py.
            assert name not in prices.get(region, ()) or not OFFERINGS.zones_with(group.instance_type, region), region


def test_cfn_lint_is_told_to_pass_over_what_its_lists_lack_and_nothing_else() -> None:
    for orchestrator in Orchestrator:
        for platform in cells(SOME, orchestrator):
            (group,) = platform.node_groups
            if set(NOT_TAKEN[orchestrator]) & {"reservation"} and isinstance(group.capacity, Reservation):
                continue
            checks = ignored_checks(platform)
            if "AWS::EC2::LaunchTemplate" in checks:
                assert group.instance_type not in listed("aws_ec2_instance").get(platform.region, ())
            if orchestrator is Orchestrator.HYPERPOD_EKS and "AWS::SageMaker::Cluster" in checks:
                assert f"ml.{group.instance_type}" not in listed("aws_sagemaker_cluster").get(platform.region, ())


def test_resource_types_that_the_registry_does_not_list_are_known() -> None:
    used = {
        resource["Type"]
        for example in EXAMPLES
        for template in templates_of(example).values()
        for resource in template["Resources"].values()
    }
    facts = service_facts()
    # Of these, check and the stacks know by other facts where they are.
    elsewhere = {
        "AWS::SageMaker::Cluster": set(facts.hyperpod.regions),
        "AWS::SageMaker::ComputeQuota": set(facts.hyperpod.regions),
        "AWS::SageMaker::ClusterSchedulerConfig": set(facts.hyperpod.scheduler_config_regions),
        # HyperPod's observability keeps metrics and their rules in Prometheus.
        "AWS::APS::Scraper": set(OFFERINGS.zones) - set(facts.collectors.regions_without),
        "AWS::CloudWatch::LogAlarm": set(OFFERINGS.zones) - set(facts.log_alarms.regions_without),
        "AWS::APS::Workspace": set(facts.hyperpod.regions),
        "AWS::APS::RuleGroupsNamespace": set(facts.hyperpod.regions),
        "AWS::FSx::FileSystem": {*facts.lustre.regions, *facts.lustre.slow_regions},
        "AWS::Budgets::Budget": set(facts.budgets.regions),
    }
    lacking = dict[str, set[str]]()
    for region in OFFERINGS.zones:
        for name in used - (registry(region) or used):
            if region in elsewhere.get(name, {region}):
                lacking.setdefault(name, set()).add(region)
    assert lacking == {name: set(regions) for name, regions in facts.registry.unlisted.items()}


def test_the_registry_has_collectors_and_alarms_on_logs_where_the_lists_have_them() -> None:
    known, facts = {region: registry(region) for region in OFFERINGS.zones}, service_facts()
    lists = {"AWS::APS::Scraper": facts.collectors, "AWS::CloudWatch::LogAlarm": facts.log_alarms}
    for name, listed in lists.items():
        without = {region for region, types in known.items() if types and name not in types}
        assert without == set(listed.regions_without), name


def test_a_resource_type_that_the_registry_does_not_list_is_a_note() -> None:
    zones = {"zones": ("caw1-az1", "caw1-az2"), "region": "ca-west-1"}
    (note,) = unlisted(BASE.model_copy(update=zones))
    assert "did not list AWS::CodeBuild::Project in ca-west-1" in note
    signed = BASE.model_copy(update=zones | {"image": BASE.image.model_copy(update={"sign": True})})
    assert len(unlisted(signed)) == 2
    assert unlisted(BASE) == ()


REAL: dict[str, dict[str, Any]] = {
    "P5e blocks in Oregon": {
        "zones": ["usw2-az3", "usw2-az1"],
        "node_groups": [
            {"name": "train", "instance_type": "p5e.48xlarge", "count": 1, "capacity": {"capacity_block": BLOCK}}
        ],
    },
    "P5e with a plan on HyperPod": {
        "orchestrator": "hyperpod-slurm",
        "zones": ["usw2-az3"],
        "node_groups": [
            {
                "name": "train",
                "instance_type": "p5e.48xlarge",
                "count": 1,
                "capacity": {"training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/a"},
            }
        ],
    },
    "teams of HyperPod in Stockholm": {
        "orchestrator": "hyperpod-eks",
        "region": "eu-north-1",
        "zones": ["eun1-az1", "eun1-az2"],
        "teams": [{"name": "research", "guarantee": {"p5.48xlarge": 1}}],
    },
    "signed images in Calgary": {
        "region": "ca-west-1",
        "zones": ["caw1-az1", "caw1-az2"],
        "node_groups": [{"name": "train", "instance_type": "g6.xlarge", "count": 1}],
        "image": {"sign": True},
    },
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("cell", REAL)
def test_cfn_lint_finds_nothing_in_real_templates(cell: str) -> None:
    from tests.seams.test_templates import lint

    base: dict[str, Any] = {
        "name": "atlas",
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": "eks",
    }
    groups = [{"name": "train", "instance_type": "p5.48xlarge", "count": 1}]
    platform = Platform.model_validate(base | {"node_groups": groups} | REAL[cell])
    templates = templates_of(platform)
    assert ignored_checks(platform)
    for role, template in templates.items():
        assert lint(json.dumps(template), platform.region) == (), role
    for template in templates.values():
        for resource in template["Resources"].values():
            resource.get("Metadata", {}).pop("cfn-lint", None)
    found = [each for template in templates.values() for each in lint(json.dumps(template), platform.region)]
    assert found, "cfn-lint has nothing to pass over here any more"
