"""Reads a HyperPodPyTorchJob by the typed model in AWS's own client, which refuses unknown fields."""

from __future__ import annotations

import types
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from tests.seams.kubernetes.definitions import data, package_file


def hyperpod_job_refusals(document: dict[str, Any]) -> list[str]:
    """Return what the model refuses, and what it does not read: its outermost class ignores unknown fields."""
    spec = document.get("spec", {})
    try:
        read = _model().model_validate(spec, strict=True, by_alias=False, by_name=True)
    except ValidationError as error:
        return [f"$.spec.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    kept = read.model_dump(exclude_unset=True)
    return [f"$.spec.{key}: the model reads {kept.get(key)!r}" for key in spec if kept.get(key) != spec[key]]


@cache
def _model() -> type[BaseModel]:
    module = types.ModuleType("hyperpod_pytorch_job_model")
    exec(compile(package_file(), module.__name__, "exec", dont_inherit=True), vars(module))
    model: type[BaseModel] = vars(module)[data()["package"]["model"]]
    return model
