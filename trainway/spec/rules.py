"""What a platform file must satisfy across its keys: one function a rule, every rule run, every breach reported.

A rule yields `(key path, reason, remedy)` and never raises. The decorator `rule` adds it to `RULES`. This module
imports the modules `rules` and `*_rules` of every topic, so that a new one needs no other change.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rule import PUBLISHED_RULES, RULES, Breach, name_of, rule

__all__ = ["RULES"]

for _module in pkgutil.walk_packages([str(Path(__file__).parent)], "trainway.spec."):
    if _module.name.count(".") == 3 and _module.name.endswith("rules"):
        importlib.import_module(_module.name)


@rule
def accepted_rules_rest_on_what_aws_published(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Each rule of `accept` exists, and is about what AWS sells, not about what a platform can be deployed with."""
    for index, accepted in enumerate(platform.accept):
        key, name = ("accept", index, "rule"), accepted.rule
        if name in PUBLISHED_RULES:
            continue
        if name in map(name_of, RULES):
            reason = "a platform that breaks this rule cannot be deployed, whatever AWS sells"
            yield key, reason, "mend what the rule reports; `trainway rules` lists the rules that can be accepted"
        else:
            near = difflib.get_close_matches(name, PUBLISHED_RULES, n=3) or sorted(PUBLISHED_RULES)
            yield key, "there is no such rule", f"write one of {', '.join(near)}"


@rule
def rules_are_accepted_once(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No rule stands twice in `accept`."""
    names = [accepted.rule for accepted in platform.accept]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield ("accept", index, "rule"), "the rule is accepted already", "write each rule once"
