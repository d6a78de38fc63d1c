"""AWS's query protocol for botocore's model of the CloudFormation API: forms in, XML out.

https://smithy.io/2.0/aws/protocols/aws-query-protocol.html (2026-11).
"""

from __future__ import annotations

import uuid
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from botocore.model import ServiceModel

Form = dict[str, str]
NAMESPACE = "http://cloudformation.amazonaws.com/doc/2010-05-15/"


@lru_cache
def cloudformation_model() -> ServiceModel:
    """Return botocore's model of the CloudFormation API, with every operation and shape."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("cloudformation", "service-2"), "cloudformation")


def parse(shape: Any, form: Form, prefix: str = "") -> Any:
    """Return the value at a prefix of a form (`Tags.member.1.Key=…`) by its shape, or None if it is missing."""
    if shape is None:
        return {}
    if shape.type_name == "structure":
        found = {name: parse(member, form, f"{prefix}{name}.") for name, member in shape.members.items()}
        members = {name: value for name, value in found.items() if value is not None}
        return members if members or not prefix else None
    if shape.type_name == "list":
        items: list[Any] = []
        while (item := parse(shape.member, form, f"{prefix}member.{len(items) + 1}.")) is not None:
            items.append(item)
        return items or None
    text = form.get(prefix.removesuffix("."))
    if text is None:
        return None
    if shape.type_name == "boolean":
        return text == "true"
    return int(text) if shape.type_name in ("integer", "long") else text


def render(operation: str, shape: Any, result: dict[str, Any]) -> bytes:
    """Return the XML response of an operation.

    Raises KeyError for a result that the API's model does not have, because no client could read it.
    """
    root = ElementTree.Element(f"{operation}Response", xmlns=NAMESPACE)
    if shape is not None:
        _fill(
            ElementTree.SubElement(root, shape.serialization.get("resultWrapper", f"{operation}Result")), shape, result
        )
    metadata = ElementTree.SubElement(root, "ResponseMetadata")
    ElementTree.SubElement(metadata, "RequestId").text = str(uuid.uuid4())
    return _document(root)


def render_error(code: str, message: str) -> bytes:
    """Return the XML response of an error."""
    root = ElementTree.Element("ErrorResponse", xmlns=NAMESPACE)
    error = ElementTree.SubElement(root, "Error")
    for name, text in (("Type", "Sender"), ("Code", code), ("Message", message)):
        ElementTree.SubElement(error, name).text = text
    ElementTree.SubElement(root, "RequestId").text = str(uuid.uuid4())
    return _document(root)


def _document(root: ElementTree.Element) -> bytes:
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _fill(element: ElementTree.Element, shape: Any, value: Any) -> None:
    if shape.type_name == "structure":
        for name, member in value.items():
            if member is not None:
                _fill(ElementTree.SubElement(element, name), shape.members[name], member)
    elif shape.type_name == "list":
        for item in value:
            _fill(ElementTree.SubElement(element, "member"), shape.member, item)
    elif isinstance(value, bool):
        element.text = "true" if value else "false"
    elif isinstance(value, datetime):
        element.text = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    else:
        element.text = str(value)
