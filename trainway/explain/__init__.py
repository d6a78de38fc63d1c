"""Explain why a job failed, and what to do about it.

A target fills an `Evidence` with the information that it has. `explain` returns findings, the cause first:

1. gather.py reads files, and the readers of each program (kubernetes.py, slurm.py, torchrun.py) make events and exits.
2. findings.py cuts what does not end a run, described.py and slurm.py turn pasted tables into events, and attempts.py
   keeps the current attempt.
3. continued.py cuts what the program overcame.
4. findings.py matches the rules, which are in rules/*.yaml, one file per topic. A rule that needs more than a pattern
   is a function, such as those of lustre.py and gpu_busy.py.
5. matches.py orders the matches, and findings.py puts specific rules before general ones.
6. first_error.py and line_scores.py find an error that no rule matches, and certainty.py decides what is certain.
7. show.py prints.
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
