"""Reading an object by a published typed model, which ignores the fields that it does not have."""

from __future__ import annotations

import json
from typing import Any, Protocol


class TypedModel(Protocol):
    """A model of the kubeflow_trainer_api package."""

    @classmethod
    def from_dict(cls, obj: dict[str, Any], /) -> Any: ...


def misread(model: type[TypedModel], document: dict[str, Any]) -> list[str]:
    """Return the top-level keys that differ after a round trip through the model; empty if it read the whole object."""
    plain = json.loads(json.dumps(document))
    read = json.loads(json.dumps(model.from_dict(plain).to_dict()))
    return sorted(key for key in {*plain, *read} if plain.get(key) != read.get(key))
