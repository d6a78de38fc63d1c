"""Launching on the platform's Kubernetes: rendering, submitting, and watching."""

from trainway.launch.kubernetes.options import KINDS, Kind, KubernetesOptions, Priority
from trainway.launch.kubernetes.render import as_yaml, render_documents
from trainway.launch.kubernetes.submit import submit
from trainway.launch.kubernetes.target import TARGET
from trainway.launch.kubernetes.watch import logs, shell, state, stop

__all__ = [
    "KINDS",
    "TARGET",
    "Kind",
    "KubernetesOptions",
    "Priority",
    "as_yaml",
    "logs",
    "render_documents",
    "shell",
    "state",
    "stop",
    "submit",
]
