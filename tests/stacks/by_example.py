"""What is computed of an example, when a test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from tests.synthesis import EXAMPLES, Template

FILES = {file.stem: file for file in EXAMPLES}
Value = TypeVar("Value")


class ByExample(Mapping[str, Value]):
    """What a function returns for the file of an example, by the example's name. Each is computed at most once."""

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
