"""A budget counts the costs of a tag, tells somebody, and exists where CloudFormation has the type."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, published_rule, rule


@rule
def a_budget_counts_a_tag_of_the_platform(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A budget counts the costs of one of `tags`. Without a tag it would count those of the whole account."""
    budget = platform.budget
    if budget is None:
        return
    names = ", ".join(platform.tags)
    if not platform.tags:
        reason = "the platform has no tags, by which AWS Budgets would find its costs"
        yield ("budget",), reason, f"add a tag, for example `tags: {{Platform: {platform.name}}}`"
    elif budget.tag is None and len(platform.tags) > 1:
        reason = f"the platform has {len(platform.tags)} tags, and a budget counts the costs of one"
        yield ("budget",), reason, f"set `tag` to one of {names}"
    elif budget.tag is not None and budget.tag not in platform.tags:
        yield ("budget", "tag"), "the platform has no such tag", f"write one of {names}"


@rule
def a_budget_tells_somebody(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A notification of AWS Budgets has a subscriber."""
    budget = platform.budget
    if budget is not None and not (budget.notify or platform.observability.notify):
        yield ("budget",), "nobody is notified", "add `notify`, for example `notify: finance@example.com`"


@rule
def percentages_of_a_budget_differ(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """AWS Budgets takes a notification of a threshold once."""
    if platform.budget is not None and len(set(platform.budget.at_percent)) < len(platform.budget.at_percent):
        yield ("budget", "at_percent"), "a percentage is there twice", "remove one of them"


@published_rule
def budgets_are_in_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """CloudFormation has budgets in the Region. They are global, and few Regions have the type."""
    regions = service_facts().budgets.regions
    if platform.budget is not None and platform.region not in regions:
        reason = f"CloudFormation has no AWS::Budgets::Budget in {platform.region}"
        yield ("budget",), reason, "remove the section, and create the budget by the console or by `aws budgets`"
