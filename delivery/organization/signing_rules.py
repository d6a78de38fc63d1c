"""Prints the signing rules of a registry with the rule of one repository: signing_rules.py REPOSITORY PROFILE|none.

The rules are read from standard input, as `aws ecr get-signing-configuration` shows them. Rules that are right are not
printed.
The rule of the repository is the one whose only filter is its name. Every other rule stays as it is.
"""

import json
import sys
from typing import Any

# https://docs.aws.amazon.com/AmazonECR/latest/userguide/managed-signing.html (read 2026-11-23)
MOST_RULES = 10
NONE = "none"


def with_rule(rules: list[dict[str, Any]], repository: str, profile: str) -> list[dict[str, Any]]:
    """Return the rules with that of the repository, or without one if the profile is `none`."""
    filters = [{"filter": repository, "filterType": "WILDCARD_MATCH"}]
    others = [rule for rule in rules if rule.get("repositoryFilters") != filters]
    return others if profile == NONE else [*others, {"signingProfileArn": profile, "repositoryFilters": filters}]


if __name__ == "__main__":
    now = json.load(sys.stdin)["rules"]
    wanted = with_rule(now, sys.argv[1], sys.argv[2])
    if len(wanted) > max(MOST_RULES, len(now)):
        sys.exit(
            f"error: the registry has {len(now)} signing rules, and {MOST_RULES} are the most. Remove one of them with "
            "`aws ecr put-signing-configuration`, or remove the key `sign` of the image"
        )

    def ordered(rules: list[dict[str, Any]]) -> list[str]:
        return sorted(json.dumps(rule, sort_keys=True) for rule in rules)

    if ordered(now) != ordered(wanted):
        print(json.dumps({"rules": wanted}))
