"""Explain why a job failed, and what to do about it.

A target fills an `Evidence` with the information that it has. `explain` returns findings, the cause first. The rules
are in rules/*.yaml, one file per topic. A rule that needs more than a pattern is a function.
"""

from trainway.explain.evidence import Evidence, Exit, JobEvent, Log
from trainway.explain.finding import Confidence, Finding
from trainway.explain.findings import explain
from trainway.explain.gather import evidence_in, evidence_of_run
from trainway.explain.kubernetes import kubernetes_evidence
from trainway.explain.sagemaker import sagemaker_evidence
from trainway.explain.show import as_document, as_text
from trainway.explain.slurm import slurm_evidence

__all__ = [
    "Confidence",
    "Evidence",
    "Exit",
    "Finding",
    "JobEvent",
    "Log",
    "as_document",
    "as_text",
    "evidence_in",
    "evidence_of_run",
    "explain",
    "kubernetes_evidence",
    "sagemaker_evidence",
    "slurm_evidence",
]
