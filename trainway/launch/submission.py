"""Rendering and submitting a request by the name of its target, with options as the command line and records have them.

The modules of a target are imported when it is the one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from trainway.launch.request import Request
from trainway.launch.target import Handle
from trainway.spec.catalogue import Catalogue

if TYPE_CHECKING:
    from trainway.launch.kubernetes import KubernetesOptions
    from trainway.launch.sagemaker import SageMakerOptions
    from trainway.launch.slurm import SlurmOptions


def default_options(target: str) -> dict[str, Any]:
    """The options of a launch that says nothing."""
    if target == "slurm":
        return {"borrow": False, "time_limit": None, "environment": None, "user": None}
    return {}


def render(request: Request, catalogue: Catalogue, target: str, options: Mapping[str, Any], code: str | None) -> str:
    """Exactly what is submitted; `code` is the location of synced code. Raises UsageError for what cannot be."""
    if target == "slurm":
        from trainway.launch.slurm import render_script

        return render_script(request, catalogue, _slurm_options(options, code))
    if target == "sagemaker":
        from trainway.launch.sagemaker import as_json, render_request

        return as_json(render_request(request, catalogue, _sagemaker_options(options, code)))
    from trainway.launch.kubernetes import as_yaml, render_documents

    return as_yaml(render_documents(request, catalogue, _kubernetes_options(options, code)))


def submit(request: Request, catalogue: Catalogue, target: str, options: Mapping[str, Any], code: str | None) -> Handle:
    """Submits it, and returns how it is found again. Raises UsageError where it is refused."""
    if target == "slurm":
        from trainway.launch import slurm

        return slurm.submit(request, catalogue, _slurm_options(options, code))
    if target == "sagemaker":
        from trainway.launch import sagemaker

        return sagemaker.submit(request, catalogue, _sagemaker_options(options, code))
    from trainway.launch import kubernetes

    documents = kubernetes.render_documents(request, catalogue, _kubernetes_options(options, code))
    return kubernetes.submit(request, documents)


def _slurm_options(options: Mapping[str, Any], code: str | None) -> SlurmOptions:
    from trainway.launch.slurm import SlurmOptions

    environment = options["environment"]
    return SlurmOptions(
        borrow=options["borrow"],
        time_limit_minutes=options["time_limit"],
        environment=None if environment is None else PurePosixPath(environment),
        user=options["user"],
        code=code,
    )


def _sagemaker_options(options: Mapping[str, Any], code: str | None) -> SageMakerOptions:
    from trainway.launch.sagemaker import SageMakerOptions

    named = {"time_limit": "time_limit_minutes", "wait": "wait_minutes", "keep_warm": "warm_minutes"}
    return SageMakerOptions(**{named.get(name, name): value for name, value in _said(options).items()}, code=code)


def _kubernetes_options(options: Mapping[str, Any], code: str | None) -> KubernetesOptions:
    from trainway.launch.kubernetes import KubernetesOptions

    return KubernetesOptions(**_said(options), code=code)


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    """Less what was not said, for which a target has a default of its own."""
    return {name: value for name, value in options.items() if value is not None}
