"""The sections of a job file that are named after targets, for example `slurm: {borrow: true}`.

Their keys are the options of the target, by the names of the flags: trainway/launch/target/options.py.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, Field, create_model

from trainway.launch.target.known import AnyTarget, all_targets
from trainway.launch.target.options import declared_options, path_type
from trainway.spec.values import Section

JobFile = TypeVar("JobFile", bound=BaseModel)


@functools.cache
def with_target_sections(model: type[JobFile], only: tuple[str, ...] | None = None) -> type[JobFile]:
    """Return the model of a job file with a section for each target. A section has the types of the target's flags.

    `only` are the names of the targets that get one. None is all targets, those of other packages among them.
    """
    sections: dict[str, Any] = {
        target.name: (_section(target) | None, Field(None, description=_description(target)))
        for target in all_targets()
        # A target of another package can have the name of a key, and then has flags only.
        if target.name not in model.model_fields and (only is None or target.name in only)
    }
    made = create_model(model.__name__, __base__=model, __module__=model.__module__, **sections)
    made.__doc__ = model.__doc__
    return made


def options_in(file: BaseModel) -> Mapping[str, Mapping[str, Any]]:
    """Return the options that a job file sets, by the names of the target and of the flag.

    `file` is a value of a model of `with_target_sections`.
    """
    found = {target.name: getattr(file, target.name, None) for target in all_targets()}
    return {
        name: section.model_dump(exclude_unset=True, exclude_none=True)
        for name, section in found.items()
        if isinstance(section, _Section)
    }


class _Section(Section):
    """A section of a target."""


def _section(target: AnyTarget) -> type[BaseModel]:
    """Return the model of a target's section. No key is required."""
    keys: dict[str, Any] = {}
    for each in declared_options(target.options):
        # A flag's value is text, too.
        kind = str if path_type(each.kind) else each.kind
        keys[each.name] = (kind | None, Field(None, description=each.flag.help, ge=each.flag.least))
    made = create_model(f"{target.name.capitalize()}Section", __base__=_Section, **keys)
    made.__doc__ = _description(target)
    return made


def _description(target: AnyTarget) -> str:
    return f"Options of `trainway launch --target {target.name}`, by the names of the flags. A flag overrides them."
