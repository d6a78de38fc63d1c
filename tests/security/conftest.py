"""Every example, synthesized once, as the tests of the stacks have it."""

from __future__ import annotations

from tests.stacks.conftest import assemblies, example, synthesized

__all__ = ["assemblies", "example", "synthesized"]
