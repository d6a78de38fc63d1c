"""The tags of all resources are ones that every AWS service takes, and that nothing else gives a meaning.

https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html has the limits of most services,
https://docs.aws.amazon.com/sdkfornet/v3/apidocs/items/ECS/TTag.html states them in the same words (the latter read
2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule

# Of the 50 tags of a resource. The rest is for the platform's own, Kubernetes', and those of a project.
MOST_TAGS = 40
KEY_LENGTH, VALUE_LENGTH = 128, 256
CHARACTERS = re.compile(r"[\w\s+\-=.:/@]*")
# Names in consoles, the platform's own tags, and those by which Kubernetes and EKS find what is theirs.
RESERVED = re.compile(r"name|trainway.*|eks:.*|(.*\.)?k8s\.(io|aws)/.*|(.*\.)?kubernetes\.io/.*", re.IGNORECASE)


@rule
def tags_are_few(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Every resource has room for the tags of the file beside those of the platform."""
    if len(platform.tags) > MOST_TAGS:
        reason = f"these are {len(platform.tags)} tags, and a resource takes 50 with those of the platform itself"
        yield ("tags",), reason, f"keep {MOST_TAGS} or fewer"


@rule
def tags_are_what_every_service_takes(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Keys and values have the lengths and characters that all AWS services accept, and no prefix of AWS's own."""
    for name, value in platform.tags.items():
        key: KeyPath = ("tags", name)
        if not 1 <= len(name) <= KEY_LENGTH:
            yield key, f"the tag's name has {len(name)} characters", f"write 1 to {KEY_LENGTH} characters"
        if len(value) > VALUE_LENGTH:
            yield key, f"the tag's value has {len(value)} characters", f"write {VALUE_LENGTH} characters or fewer"
        if not (CHARACTERS.fullmatch(name) and CHARACTERS.fullmatch(value)):
            remedy = "write letters, digits, spaces, and + - = . _ : / @"
            yield key, "the tag has a character that not every AWS service takes", remedy
        if any(text.lower().startswith("aws:") for text in (name, value)):
            yield key, "AWS keeps the prefix aws: for itself", "write another prefix"


@rule
def tags_mean_one_thing(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No tag is one by which the platform, EKS, or Kubernetes finds something, and no two differ in case alone.

    IAM takes two such keys for one: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html
    """
    seen: dict[str, str] = {}
    for name in platform.tags:
        if RESERVED.fullmatch(name):
            yield (
                ("tags", name),
                "the platform or Kubernetes gives this tag a meaning of its own",
                "choose another name",
            )
        if other := seen.get(name.lower()):
            yield ("tags", name), f"it differs from {other} in case alone, and IAM takes the two for one", "keep one"
        seen[name.lower()] = name
