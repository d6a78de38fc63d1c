"""Refusing what a job file says about its life cycle and only Kubernetes can do."""

from __future__ import annotations

from trainway.launch.program.request import Request
from trainway.spec.errors import usage_error


def check_life_cycle(request: Request, target: str, *, restarts: str, keep: str) -> None:
    """Raise UsageError if the job file sets `life_cycle.restarts` above 0, or `life_cycle.keep_hours`.

    `restarts` and `keep` say what the target does instead.
    """
    life_cycle = request.program.life_cycle
    said = life_cycle.stated
    for key, is_set, why in (
        ("restarts", "restarts" in said and life_cycle.restarts > 0, restarts),
        ("keep_hours", "keep_hours" in said and life_cycle.keep_hours is not None, keep),
    ):
        if is_set:
            what = f"{request.program.name} cannot have life_cycle.{key} on {target}"
            raise usage_error(what, why=why, fix=f"leave `life_cycle.{key}` out of the job file")
