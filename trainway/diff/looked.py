"""The input of a diff: everything that it reads before its first decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainway.diff.assembly import SynthesizedStack
from trainway.diff.change_sets import Answered
from trainway.diff.compare import ResourceDiff
from trainway.diff.tokens import StackTemplate


@dataclass(frozen=True)
class Looked:
    """The input of a diff: the deployed templates, the synthesized stacks, and the effect on each resource.

    `extended` says by stack and logical ID what the platform's extension does to a resource.
    """

    deployed: Mapping[str, StackTemplate]
    stacks: Mapping[str, SynthesizedStack]
    diffs: Sequence[ResourceDiff]
    answered: Mapping[str, Answered]
    extended: Mapping[str, Mapping[str, str]]
