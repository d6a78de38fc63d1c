"""Results for examples, which are computed when a test first reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from tests.synthesis import EXAMPLES, Template

FILES = {file.stem: file for file in EXAMPLES}
Value = TypeVar("Value")


class ByExample(Mapping[str, Value]):
    """Mapping from the name of an example to the result of a function for its file. It computes each result once."""

    def __init__(self, of: Callable[[Path], Value]) -> None:
        self._of = cache(of)

    def __getitem__(self, name: str) -> Value:
        return self._of(FILES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(FILES)

    def __len__(self) -> int:
        return len(FILES)


# Templates by example (`eks-p5`, …) and role (`network`, …).
Synthesized = Mapping[str, dict[str, Template]]
