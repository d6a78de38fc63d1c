"""The hand-off of a synthesized platform, with a stand-in for each value that only a deploy knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.synthesis import resources
from trainway.spec.handoff import HandOff, Pointer, fill


def parameter_in(assembly: Path) -> dict[str, Any]:
    """Return the properties of the hand-off's SSM parameter in a platform's cloud assembly."""
    (file,) = assembly.glob("*-cluster.template.json")
    parameters = resources(json.loads(file.read_text(encoding="utf-8")), "AWS::SSM::Parameter").values()
    (parameter,) = (each for each in parameters if each["Name"].endswith("/hand-off"))
    return dict(parameter)


def document_in(assembly: Path, pointer: Pointer) -> str:
    """Return the text of the asset that the pointer names."""
    return (assembly / f"asset.{pointer.key}").read_text(encoding="utf-8")


def hand_off_in(assembly: Path, known: Callable[[Any], str] | None = None) -> HandOff:
    """Return the hand-off; `known` gives the text of an intrinsic function, by default the name it refers to."""
    value = text_of(parameter_in(assembly)["Value"], known or name_of)
    pointer = Pointer.model_validate_json(value)
    return HandOff.model_validate_json(fill(document_in(assembly, pointer), pointer.values))


def text_of(value: Any, known: Callable[[Any], str]) -> str:
    """Return the text of a property whose parts are joined."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(text_of(part, known) for part in parts)
        case _:
            return known(value)


def name_of(function: Mapping[str, Any]) -> str:
    """Return the name that an intrinsic function refers to, for example `Cluster.Arn`."""
    match function:
        case {"Fn::GetAtt": [name, attribute]}:
            return f"{name}.{attribute}"
        case {"Ref": name} | {"Fn::ImportValue": name} | {"Fn::Sub": name}:
            return str(name)
        case {"Fn::Select": [index, {"Fn::Split": [_, text]}]}:
            return f"{text_of(text, name_of)}.{index}"
        case _:
            raise AssertionError(f"unexpected: {function}")
