"""The repairs of `trainway verify --repair`: show the requests to SageMaker HyperPod, confirm, and send them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from trainway.commands.printing import show
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.launch.program.request import Request
    from trainway.verify.results import Result


def repair_nodes(
    results: Sequence[Result], request: Request, wanted: str | None, *, ask: bool, send_none: bool, as_json: bool
) -> dict[str, Any]:
    """Repair the nodes at fault among those of a request, and return a document of the requests and their results.

    `wanted` replaces the repair that fits each failed check. With `as_json`, the text goes to the standard error,
    because the standard output carries JSON. Raises UsageError if SageMaker refuses a request, or if there is no
    terminal to confirm at, and typer.Abort if the answer is not yes.
    """
    from trainway.verify.cluster_nodes import RefusedRepair, repair_requests, send
    from trainway.verify.repairs import Repair, choose_repairs
    from trainway.verify.show_repairs import RepairPlan, as_outcome, as_plan, as_repair_document

    repairs, others = choose_repairs(results, Repair(wanted) if wanted else None)
    requests, unknown = repair_requests(repairs, request.hand_off, request.allocation.group.name)
    plan = RepairPlan(requests, repairs, others, unknown)
    stream = sys.stderr if as_json else sys.stdout
    show(as_plan(plan, request.hand_off.cluster.name), to=stream)
    sent, refused = False, list[RefusedRepair]()
    if requests and not send_none:
        if ask:
            _confirm()
        for each in requests:
            said = send(each, request.hand_off.region)
            sent = True
            refused += said
            show(as_outcome(each, said), to=stream)
    return {"repair": as_repair_document(plan, sent=sent, refused=refused)}


def _confirm() -> None:
    if not sys.stdin.isatty():
        why, fix = "there is no terminal to confirm the repair at", "add --yes to repair without a confirmation"
        raise usage_error("nothing was repaired", why=why, fix=fix)
    typer.confirm("Send these requests to SageMaker?", abort=True, err=True)
