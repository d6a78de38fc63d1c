"""Reads what the schema of a pod cannot say: that its parts refer to each other, and that its images have a registry.

https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/apis/core/validation/validation.go (ValidateVolumeMounts,
validateContainerResourceClaimNames, ValidateResourceRequirements)
https://github.com/distribution/reference/blob/v0.6.0/normalize.go (ParseNormalizedNamed; both read 2026-11-22)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ (read 2026-11-22)
_QUANTITY = re.compile(r"(?P<number>[+-]?\d+(\.\d*)?)(?P<suffix>[EPTGMK]i|[numkMGTPE]|[eE][+-]?\d+)?")
_VARIABLE = re.compile(r"[^=\x00-\x1f\x7f-]+")
_OWN_RESOURCES = {"cpu", "memory", "ephemeral-storage"}
_SUFFIX = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def refusals(document: dict[str, Any]) -> list[str]:
    """Return what is wrong with the pod of a Pod or of a Job; empty for every other kind."""
    if document["kind"] == "Job":
        spec = document["spec"]
        return [*_failure_policy(spec), *_pod(spec["template"].get("spec", {}), "$.spec.template.spec")]
    return list(_pod(document.get("spec", {}), "$.spec")) if document["kind"] == "Pod" else []


def amount(quantity: Any) -> Decimal:
    """Return a quantity as a number; raises ValueError if it is none."""
    found = _QUANTITY.fullmatch(str(quantity))
    if not found:
        raise ValueError(f"{quantity!r} is no quantity")
    number, suffix = Decimal(found["number"]), found["suffix"] or ""
    if suffix.endswith("i"):
        return number * Decimal(1024) ** ("KMGTPE".index(suffix[0]) + 1)
    return number * Decimal(10) ** (_SUFFIX[suffix] if suffix in _SUFFIX else int(suffix[1:]))


def _failure_policy(job: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with what a Job does when its pods fail.

    https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/apis/batch/validation/validation.go (validateJobSpec,
    validatePodFailurePolicy; read 2026-11-22)
    """
    pod, where = job["template"].get("spec", {}), "$.spec.podFailurePolicy"
    if pod.get("restartPolicy") == "Always":
        yield "$.spec.template.spec.restartPolicy: a Job's pods are restarted OnFailure or Never"
    if "podFailurePolicy" not in job:
        return
    if pod.get("restartPolicy") != "Never":
        yield f"{where}: it needs pods with `restartPolicy: Never`"
    names = [each["name"] for each in (*pod.get("initContainers", ()), *pod.get("containers", ()))]
    for rule in job["podFailurePolicy"]["rules"]:
        if ("onExitCodes" in rule) == bool(rule.get("onPodConditions")):
            yield f"{where}.rules: a rule is for exit codes or for conditions of the pod"
        if rule["action"] == "FailIndex" and "backoffLimitPerIndex" not in job:
            yield f"{where}.rules: FailIndex needs backoffLimitPerIndex"
        codes = rule.get("onExitCodes", {})
        if codes.get("containerName", names[0]) not in names:
            yield f"{where}.rules: the pod has no container {codes['containerName']}"
        if codes.get("operator") == "In" and 0 in codes["values"]:
            yield f"{where}.rules: 0 is no failure"


def _pod(pod: dict[str, Any], path: str) -> Iterator[str]:
    volumes = [each["name"] for each in pod.get("volumes", ())]
    claims = [each["name"] for each in pod.get("resourceClaims", ())]
    containers = [*pod.get("initContainers", ()), *pod.get("containers", ())]
    names = [each["name"] for each in containers]
    if len(set(names)) < len(names):
        yield f"{path}: two containers have one name"
    for container in containers:
        where = f"{path}.containers[{container['name']}]"
        yield from _image(container.get("image"), where)
        yield from _resources(container.get("resources", {}), claims, where)
        for mount in container.get("volumeMounts", ()):
            if mount["name"] not in volumes:
                yield f"{where}.volumeMounts: the pod has no volume {mount['name']}"
        for variable in container.get("env", ()):
            if not _VARIABLE.fullmatch(variable["name"].replace("-", "_")):
                yield f"{where}.env: {variable['name']!r} is no name of a variable"
            if "value" in variable and "valueFrom" in variable:
                yield f"{where}.env[{variable['name']}]: it has a value and a source"


def _image(image: str | None, where: str) -> Iterator[str]:
    """Without a host before the first slash, an image is Docker Hub's."""
    # The image of a runtime's pod is the TrainJob's, if that names one.
    if image is None:
        yield f"{where}.image: there is none"
        return
    host, slash, _ = image.partition("/")
    if not slash or not (set(host) & {".", ":"} or host == "localhost"):
        yield f"{where}.image: {image} names no registry"


def _resources(resources: dict[str, Any], claims: list[str], where: str) -> Iterator[str]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, quantity in [*limits.items(), *requests.items()]:
        try:
            whole = amount(quantity) == int(amount(quantity))
        except ValueError as error:
            yield f"{where}.resources.{name}: {error}"
            continue
        if "/" in name and not whole:
            yield f"{where}.resources.{name}: {quantity} is no whole number of devices"
        if "/" not in name and name not in _OWN_RESOURCES and not name.startswith("hugepages-"):
            yield f"{where}.resources.{name}: it is no resource of Kubernetes, and has no domain"
    for name in requests:
        if name in limits and amount(requests[name]) > amount(limits[name]):
            yield f"{where}.resources.requests.{name}: more than the limit"
        if "/" in name and requests[name] != limits.get(name):
            yield f"{where}.resources.requests.{name}: devices have a limit of the same number"
    for claim in resources.get("claims", ()):
        if claim["name"] not in claims:
            yield f"{where}.resources.claims: the pod has no claim {claim['name']}"
