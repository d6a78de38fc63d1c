"""The evidence of a SageMaker training job for `trainway explain`."""

from __future__ import annotations

from contextlib import suppress

from trainway.explain.evidence import Evidence
from trainway.explain.log_lines import evidence_of_lines
from trainway.explain.sagemaker import sagemaker_evidence
from trainway.launch.sagemaker.api import client, described, explained
from trainway.launch.sagemaker.logs import logs
from trainway.launch.target.protocol import Handle
from trainway.spec.errors import UsageError


def evidence(handle: Handle) -> Evidence:
    """Return the DescribeTrainingJob response, and the job's logs if there are any.

    Raises UsageError if AWS cannot be asked.
    """
    with explained(f"{handle['name']} cannot be explained"):
        found = described(client("sagemaker", handle["region"]), handle["name"])
    known = sagemaker_evidence(found) if found else Evidence()
    with suppress(UsageError):
        known += evidence_of_lines(logs(handle, follow=False))
    return known
