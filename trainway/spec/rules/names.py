"""The platform's name, with which names of its resources begin."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule

# What no name of a document begins with.
# https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_CreateDocument.html, Name (read 2026-11-25)
OF_SYSTEMS_MANAGER = ("aws", "amazon", "amzn")


@rule
def the_name_can_begin_a_runbook(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The platform's name begins the names of its runbooks, and Systems Manager keeps some beginnings for AWS."""
    taken = next((each for each in OF_SYSTEMS_MANAGER if platform.name.startswith(each)), None)
    if taken:
        reason = f"the platform's runbooks have its name, and Systems Manager keeps names that begin with {taken}"
        yield ("name",), reason, "let the name begin with something else"
