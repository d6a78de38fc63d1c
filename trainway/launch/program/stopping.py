"""How long a program has to end after it was asked to stop, and the status of a run that was stopped."""

from __future__ import annotations

from trainway.launch.node.exit_statuses import STOPPED

__all__ = ["LONGEST_GRACE_ON_SAGEMAKER", "STATUSES_FOR_GOOD", "STOPPED"]

STATUSES_FOR_GOOD = (2, 65, 70, 77)
"""Exit statuses of the training job after which to start it again cannot help: those of training/errors.py."""
# SageMaker kills a container 120 seconds after SIGTERM, and the last upload needs some of them:
# https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-dockerfile.html (read 2026-11-21).
LONGEST_GRACE_ON_SAGEMAKER = 90
"""Seconds. No target leaves a program less, so this is what a program has unless its job file says otherwise."""
