"""The log groups that AWS creates for a platform, by names that it chooses, and without retention.

docs/aws-side-effects.md lists all of them.
"""

from __future__ import annotations

from typing import Final

from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator

LOG_DAYS: Final = 90


def control_plane_logs(cluster: str) -> str:
    """Return the name of the log group of an EKS cluster's control plane."""
    return f"/aws/eks/{cluster}/cluster"


def log_group_prefixes(platform: Platform) -> tuple[str, ...]:
    """Return the beginnings of the names of the log groups that AWS creates for a platform."""
    found = []
    if platform.orchestrator is not Orchestrator.HYPERPOD_SLURM and not platform.adopted_cluster:
        found.append(control_plane_logs(platform.name))
    if platform.orchestrator.is_hyperpod:
        # The identifier of the cluster follows, which is unknown before it exists.
        found.append(f"/aws/sagemaker/Clusters/{platform.name}/")
    return tuple(found)
