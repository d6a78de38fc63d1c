"""Reads the metadata that every object has: names, labels, and annotations.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/#syntax-and-character-set
(all read 2026-11-22)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")
_DNS_LABEL = re.compile(_LABEL)
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
# Kinds whose name is also that of a DNS label.
_LABEL_NAMED = {"Namespace", "Service"}
# Names of these may hold whatever a path segment can, such as a colon.
_PATH_NAMED = "rbac.authorization.k8s.io"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/ : all of an object's together.
_MOST_ANNOTATIONS = 256 * 1024


def metadata_refusals(document: dict[str, Any]) -> list[str]:
    """Return what is wrong with the metadata of an object."""
    metadata, kind = document.get("metadata", {}), str(document.get("kind"))
    return [
        *_names(document.get("apiVersion", ""), kind, metadata),
        *keyed("labels", metadata.get("labels", {}), values=True),
        *keyed("annotations", metadata.get("annotations", {}), values=False),
    ]


def keyed(field: str, pairs: dict[str, Any], *, values: bool) -> Iterator[str]:
    """Yield what is wrong with labels or annotations. Only the values of labels have a syntax."""
    for key, value in pairs.items():
        prefix, slash, name = key.rpartition("/")
        if not _WORD.fullmatch(name) or (slash and not _SUBDOMAIN.fullmatch(prefix)):
            yield f"$.metadata.{field}: {key!r} is no qualified name"
        if not isinstance(value, str):
            yield f"$.metadata.{field}.{key}: {value!r} is no string"
        elif values and value and not _WORD.fullmatch(value):
            yield f"$.metadata.{field}.{key}: {value!r} is no value of a label"
    if sum(len(key) + len(str(value)) for key, value in pairs.items()) > _MOST_ANNOTATIONS:
        yield f"$.metadata.{field}: more than {_MOST_ANNOTATIONS} bytes"


def _names(api_version: str, kind: str, metadata: dict[str, Any]) -> Iterator[str]:
    name, namespace = metadata.get("name"), metadata.get("namespace", "default")
    pattern = _DNS_LABEL if kind in _LABEL_NAMED else _SUBDOMAIN
    if not isinstance(name, str) or not name:
        yield "$.metadata.name: a name is required"
    elif api_version.startswith(_PATH_NAMED):
        if "/" in name or "%" in name:
            yield f"$.metadata.name: {name!r} is no path segment"
    elif not pattern.fullmatch(name):
        yield f"$.metadata.name: {name!r} is no name of a {kind}"
    if not isinstance(namespace, str) or not _DNS_LABEL.fullmatch(namespace):
        yield f"$.metadata.namespace: {namespace!r} is no name of a namespace"
