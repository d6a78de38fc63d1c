"""Errors planted in rendered Kubernetes objects, which their readers must find."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.seams.kubernetes import reader
from tests.seams.kubernetes.definitions import need_definitions
from tests.seams.kubernetes.pod_security import baseline_violations
from tests.seams.kubernetes.rendered import (
    Document,
    Launch,
    delivered,
    every_launch,
    every_platform,
    launches,
    pods_of_train_job,
)
from tests.seams.kubernetes.run_files import missing_files
from tests.seams.seam import Planted

# Why no API server reads the objects.
NO_API_SERVER = "No registry that the tests reach has an API server of a supported version."
Edit = Callable[[Document], None]
Judge = Callable[[Document, str], Sequence[str]]


def planted_in(
    platform: str, kind: str, errors: dict[str, Edit], judge: Judge = reader.read, *, job: str = ""
) -> tuple[Planted, ...]:
    """Return an error for each edit, planted in the platform's largest object of the kind.

    `job` is the name of the job whose launch submits the object. Without it, any object of the platform may be it.
    """
    return tuple(_planted(platform, kind, error, edit, judge, job) for error, edit in errors.items())


def planted_among(platform: str, kind: str, job: str, errors: dict[str, Edit]) -> tuple[Planted, ...]:
    """Return errors in what the launch of a job as a kind submits, which only a reader of all its objects finds.

    The edits apply to the ConfigMap of the launch.
    """
    return tuple(_planted_among(platform, kind, job, error, edit) for error, edit in errors.items())


def pod_planted(platform: str, errors: dict[str, Edit]) -> tuple[Planted, ...]:
    """Return errors planted in the pod of a TrainJob, which the Pod Security Standard forbids."""
    return planted_in(platform, "Pod", errors, lambda pod, _: baseline_violations(pod))


def put(path: str, value: Any) -> Edit:
    """Return an edit that sets the value at a path of keys and positions, such as `spec.taints.0.effect`."""

    def edit(document: Document) -> None:
        *way, last = path.split(".")
        node = _walk(document, way)
        node[int(last) if isinstance(node, list) else last] = value

    return edit


def drop(path: str) -> Edit:
    """Return an edit that removes what is at a path."""

    def edit(document: Document) -> None:
        *way, last = path.split(".")
        node = _walk(document, way)
        del node[int(last) if isinstance(node, list) else last]

    return edit


def twice(path: str) -> Edit:
    """Return an edit that repeats the first item of the list at a path."""

    def edit(document: Document) -> None:
        items = _walk(document, path.split("."))
        items.append(copy.deepcopy(items[0]))

    return edit


def unsent(file: str) -> Edit:
    """Return an edit that removes a file from a ConfigMap."""

    def edit(document: Document) -> None:
        del document["data"][file]

    return edit


def _walk(node: Any, way: list[str]) -> Any:
    for key in way:
        node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
    return node


def _planted(platform: str, kind: str, error: str, edit: Edit, judge: Judge, job: str = "") -> Planted:
    def reading(*, broken: bool) -> Callable[[Path], Sequence[str]]:
        def read(_: Path) -> Sequence[str]:
            need_definitions()
            document = copy.deepcopy(_first(platform, kind, job))
            if broken:
                edit(document)
            return judge(document, every_platform()[platform].kubernetes_or_default.version)

        return read

    return Planted(f"{error} ({kind})", sound=reading(broken=False), broken=reading(broken=True))


def _planted_among(platform: str, kind: str, job: str, error: str, edit: Edit) -> Planted:
    def reading(*, broken: bool) -> Callable[[Path], Sequence[str]]:
        def read(_: Path) -> Sequence[str]:
            (launch,) = (each for each in _launches_of(platform, job) if each.kind == kind)
            config_map, *others = copy.deepcopy(launch.documents)
            if broken:
                edit(config_map)
            return missing_files([config_map, *others])

        return read

    return Planted(f"{error} ({kind})", sound=reading(broken=False), broken=reading(broken=True))


def _first(platform: str, kind: str, job: str) -> Document:
    made = _launches_of(platform, job) if job else every_launch(platform)
    submitted = [each.documents for each in made if each.documents]
    pods = [pod for documents in submitted for pod in pods_of_train_job(documents)]
    every = [*(() if job else delivered(platform)), *(each for documents in submitted for each in documents), *pods]
    return max((each for each in every if each["kind"] == kind), key=lambda each: len(str(each)))


def _launches_of(platform: str, job: str) -> list[Launch]:
    return [each for each in launches(platform) if each.documents and each.what.startswith(f"{job} on ")]
