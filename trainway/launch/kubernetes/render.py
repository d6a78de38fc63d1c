"""A run as the documents that Kubernetes is given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from trainway.launch.kubernetes.hyperpod_pytorch_job import render_hyperpod_pytorch_job
from trainway.launch.kubernetes.job_set import render_job_set
from trainway.launch.kubernetes.mpi_job import render_mpi_job
from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.pytorch_job import render_pytorch_job
from trainway.launch.kubernetes.ray_job import render_ray_job, scripts
from trainway.launch.kubernetes.run import KubernetesRun, kubernetes_run
from trainway.launch.kubernetes.train_job import render_train_job, render_training_runtime
from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL
from trainway.launch.program.program import without_launcher_files
from trainway.launch.program.request import Request
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue

# https://kubernetes.io/docs/concepts/configuration/configmap/#motivation (read 2026-11-21)
MOST_BYTES = 2**20
_KINDS = {
    "PyTorchJob": render_pytorch_job,
    "HyperPodPyTorchJob": render_hyperpod_pytorch_job,
    "MPIJob": render_mpi_job,
    "JobSet": render_job_set,
    "RayJob": render_ray_job,
}


def render_documents(request: Request, catalogue: Catalogue, options: KubernetesOptions) -> list[dict[str, Any]]:
    """Return the ConfigMap of the job file, the runtime of a TrainJob, and the job, in the order to apply them in.

    Raises UsageError for what the platform does not have, or the kind or the job cannot do.
    """
    run = kubernetes_run(request, catalogue, options)
    files = _config_map(run)
    if run.options.kind == "TrainJob":
        return [files, render_training_runtime(run), render_train_job(run)]
    if run.options.kind == "RayJob":
        files["data"] |= scripts(run)
    return [files, _KINDS[str(run.options.kind)](run)]


def _config_map(run: KubernetesRun) -> dict[str, Any]:
    """Return the ConfigMap of the job file, which every pod of the run mounts. It has the name of the run.

    Raises UsageError if the files are too large for it.
    """
    files = dict(run.files)
    if (count := sum(len(text.encode()) for text in files.values())) > MOST_BYTES:
        raise usage_error(
            f"the job file of {run.request.program.name} cannot be sent to Kubernetes",
            why=f"it has {count} bytes, and a ConfigMap at most {MOST_BYTES}",
            fix="shorten it",
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": run.request.run,
            "namespace": run.share.namespace,
            "labels": {RUN_LABEL: run.request.run, **MANAGED_BY},
        },
        # A pod that starts again later reads what the first one read.
        "immutable": True,
        "data": files,
    }


def as_yaml(documents: list[dict[str, Any]]) -> str:
    """Return the documents as one text for `kubectl apply -f -`."""
    # Through JSON, so that what stands in two places is written twice, and not as an alias.
    return yaml.dump_all(json.loads(json.dumps(documents)), Dumper=_Dumper, sort_keys=False, width=120)


def shown_documents(text: str) -> str:
    """Return the text of `as_yaml` without the launcher's own files, with one line in their place."""
    return without_launcher_files(text, _entries, indent="  ")


def _entries(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the lines of each file in the ConfigMap of a run."""
    return {name: as_yaml([{"data": {name: text}}]).removeprefix("data:\n") for name, text in texts.items()}


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc] # a class that mypy cannot know
    """Writes the job file as it is written, line by line. libyaml, where PyYAML has it, does so ten times as fast."""


def _text(dumper: yaml.representer.SafeRepresenter, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
