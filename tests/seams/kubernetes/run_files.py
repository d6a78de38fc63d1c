"""Reads what no schema says: that the ConfigMap of a run has every file that the run's commands name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainway.launch.kubernetes.process import DIRECTORY

_FILE = re.compile(rf"{DIRECTORY}/([\w.-]+)")


def missing_files(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return each file below the directory of the job file that a document names and that no pod finds there.

    `documents` are those that one launch submits. The scripts in the ConfigMap are read, too.
    """
    maps = [each for each in documents if each["kind"] == "ConfigMap"]
    there = {file for each in maps for file in each["data"]}
    names = {each["metadata"]["name"] for each in maps}
    jobs = [each for each in documents if each["kind"] != "ConfigMap"]
    scripts = [{name: text} for each in maps for name, text in each["data"].items() if name.endswith(".sh")]
    named = {file for each in (*jobs, *scripts) for text in _texts(each) for file in _FILE.findall(text)}
    mounted = {name for each in jobs for name in _mounted(each)}
    return [
        *(f"{DIRECTORY}/{file}: the ConfigMap of the run has no such file" for file in sorted(named - there)),
        *(f"the ConfigMap {name} is not submitted" for name in sorted(mounted - names)),
    ]


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    values = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
    for value in values:
        yield from _texts(value)


def _mounted(node: Any) -> Iterator[str]:
    """Yield the name of every ConfigMap that is a volume."""
    if isinstance(node, Mapping):
        if isinstance(node.get("configMap"), Mapping) and "name" in node["configMap"]:
            yield node["configMap"]["name"]
        for value in node.values():
            yield from _mounted(value)
    elif isinstance(node, list):
        for value in node:
            yield from _mounted(value)
