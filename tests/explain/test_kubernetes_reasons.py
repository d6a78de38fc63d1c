"""Each reason of trouble that Kubernetes and Kueue define is known, or is quoted: none is silently passed over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.data_files import read_yaml
from trainway.explain import explain, kubernetes_evidence

SOURCES: list[dict[str, Any]] = read_yaml(Path(__file__).with_name("kubernetes_reasons.yaml"))
SAID = "said of nothing that a rule knows"


def pod(status: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "sft-0"}, "spec": {"nodeName": "ip-10-0-1-5"}, "status": status}


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each reason and the object that has it."""
    for source in SOURCES:
        for reason in source.get("events", ()):
            about = {"kind": "Pod", "name": "sft-0"}
            yield (
                reason,
                {"kind": "Event", "type": "Warning", "reason": reason, "message": SAID, "involvedObject": about},
            )
        for reason in source.get("pods", ()):
            yield reason, pod({"phase": "Failed", "reason": reason, "message": SAID})
        for state, reasons in (("waiting", source.get("waiting", ())), ("terminated", source.get("ended", ()))):
            for reason in reasons:
                container = {"state": {state: {"reason": reason, "message": SAID, "exitCode": 1}}}
                yield reason, pod({"phase": "Pending", "containerStatuses": [container]})
        for condition in source.get("conditions", ()):
            for reason in condition["reasons"]:
                status = "True" if condition["holds"] else "False"
                one = {"type": condition["type"], "status": status, "reason": reason, "message": SAID}
                yield reason, {"kind": "Workload", "metadata": {"name": "sft"}, "status": {"conditions": [one]}}


@pytest.mark.parametrize(("reason", "item"), list(objects()))
def test_a_reason_of_trouble_is_known_or_quoted(reason: str, item: dict[str, Any]) -> None:
    first, *_ = explain(kubernetes_evidence([item]))
    assert reason in first.quote.text
    assert SAID in first.quote.text


def test_the_conditions_of_a_job_that_is_well_tell_of_nothing() -> None:
    good = {
        "QuotaReserved": "QuotaReserved",
        "Admitted": "Admitted",
        "Finished": "Succeeded",
        "Complete": "CompletionsReached",
    }
    conditions = [{"type": kind, "status": "True", "reason": reason} for kind, reason in good.items()]
    assert (
        explain(kubernetes_evidence([{"kind": "Workload", "metadata": {}, "status": {"conditions": conditions}}])) == ()
    )
