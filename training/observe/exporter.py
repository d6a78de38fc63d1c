"""Metrics of a run for Prometheus, from the first rank of each node.

TRAINWAY_METRICS has the address and the port that answer `/metrics`, such as `0.0.0.0:9464`. Without it there are none.
A step stores references to what it reports anyway, and a scrape makes the text in a thread of its own. No step waits
for a scrape, and nothing is sent.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from training.checkpoint import FailedSave, Saved
from training.observe.stragglers import Straggler

VARIABLE = "TRAINWAY_METRICS"
# https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md (read 2026-11-22)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Seconds after which a silent client no longer occupies a thread.
PATIENCE_SECONDS = 10
# Name, type, and description of each metric.
FAMILIES = {
    "trainway_run_info": ("gauge", "The job, its model, its precision, and its number of ranks. Always 1."),
    "trainway_run_steps": ("gauge", "Optimizer steps of the job."),
    "trainway_run_checkpoint_every_steps": ("gauge", "Optimizer steps between two checkpoints."),
    "trainway_run_restarts": ("gauge", "Starts of the run before this one."),
    "trainway_run_step": ("gauge", "The newest optimizer step."),
    "trainway_run_last_step_timestamp_seconds": ("gauge", "Time at which the newest step was reported."),
    "trainway_run_loss": ("gauge", "Loss of the newest step, in nats per token. NaN if it is not finite."),
    "trainway_run_gradient_norm": ("gauge", "Norm of the gradient of the newest step."),
    "trainway_run_tokens_per_second": ("gauge", "Tokens per second of all ranks, in the newest step."),
    "trainway_run_mfu": ("gauge", "Model FLOPs utilization of the newest step. Absent for devices without known peak."),
    "trainway_run_step_seconds": ("gauge", "Seconds of the newest step."),
    "trainway_run_phase_seconds": ("gauge", "Seconds of the newest step in each of its phases, on this node."),
    "trainway_run_straggler_ratio": ("gauge", "Seconds of a straggler's own work, as a multiple of the median rank's."),
    "trainway_run_memory_bytes": ("gauge", "Most memory that the rank has used so far."),
    "trainway_run_skipped_steps_total": ("counter", "Steps of this start that changed nothing."),
    "trainway_run_checkpoint_step": ("gauge", "Step of the newest complete checkpoint in storage."),
    "trainway_run_checkpoint_timestamp_seconds": ("gauge", "Time at which the newest checkpoint was complete."),
    "trainway_run_checkpoint_stall_seconds": ("gauge", "Seconds for which the newest checkpoint stopped training."),
    "trainway_run_failed_saves_total": ("counter", "Saves of checkpoints of this start that failed."),
}
Samples = Iterator[tuple[str, float, Mapping[str, str]]]


def run_exporter(description: Mapping[str, Any], every: int, resumed_from: int | None) -> Exporter | None:
    """Return the exporter of this rank, or None if it is not the first of its node, or the run has no metrics.

    `description` is that of `training.observe.reports.describe`, `every` the number of steps between checkpoints, and
    `resumed_from` the step of the checkpoint at which the run begins. A port that is taken is a warning.
    """
    where = os.environ.get(VARIABLE)
    if not where or os.environ.get("LOCAL_RANK", "0") != "0":
        return None
    address, _, port = where.rpartition(":")
    try:
        return Exporter(address, int(port), description, every, resumed_from)
    except (OSError, ValueError, OverflowError) as error:
        print(f"warning: the run has no metrics for Prometheus at {where}: {error}", file=sys.stderr, flush=True)
        return None


class Exporter:
    """A server that answers scrapes with the newest step. Raises OSError if the port is taken."""

    def __init__(
        self, address: str, port: int, description: Mapping[str, Any], every: int, resumed_from: int | None
    ) -> None:
        self._description, self._every = description, every
        run = Path(os.environ.get("TRAINWAY_RUN", description["job"])).name
        self._labels = {"run": run, "node_rank": os.environ.get("GROUP_RANK", "0")}
        # torchrun counts its own restarts of the ranks, and the launcher those of torchrun.
        self._restarts = int(os.environ.get("TRAINWAY_ATTEMPT") or 1) - 1
        self._restarts += int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0)
        self._step: Mapping[str, Any] | None = None
        self._stepped = self._checkpointed = time.time()
        self._checkpoint_step, self._stall = resumed_from or 0, 0.0
        self._skipped = self._failed = 0
        self._stragglers: Sequence[Straggler] = ()
        self._server = ThreadingHTTPServer((address, port), _handler(self.text))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    @property
    def port(self) -> int:
        """The port that answers."""
        return int(self._server.server_port)

    def step(self, values: Mapping[str, Any]) -> None:
        """Take the values of a step, which are not changed afterwards."""
        self._step, self._stepped = values, time.time()
        self._skipped += values["skipped"]

    def checkpoint(self, saved: Saved) -> None:
        """Take a complete checkpoint. One that is only in memory does not outlive the nodes, and is left out."""
        if saved.location:
            self._every = saved.every
            self._checkpoint_step, self._checkpointed, self._stall = saved.step, time.time(), saved.seconds

    def interval(self, steps: int) -> None:
        """Take the number of steps between checkpoints. A longer interval applies at once, a shorter one after a save.

        If a shorter interval applied at once, the newest checkpoint would seem too old while the next one is written.
        """
        self._every = max(self._every, steps)

    def stragglers(self, found: Sequence[Straggler]) -> None:
        """Take the ranks that are slower than the others. Only rank 0 knows them."""
        self._stragglers = found

    def failed_save(self, _save: FailedSave) -> None:
        """Take a save that failed."""
        self._failed += 1

    def close(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()

    def text(self) -> str:
        """Return the metrics in Prometheus' text format."""
        lines, described = list[str](), ""
        for name, value, labels in self._samples():
            if name != described:
                kind, about = FAMILIES[name]
                lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
                described = name
            pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in {**self._labels, **labels}.items())
            lines.append(f"{name}{{{pairs}}} {_number(value)}")
        return "".join(f"{line}\n" for line in lines)

    def _samples(self) -> Samples:
        told, step = self._description, self._step
        of_job = {"job_name": told["job"], "model": str(told["model"]), "precision": told["precision"]}
        yield "trainway_run_info", 1, {**of_job, "world_size": str(told["world_size"])}
        yield "trainway_run_steps", told["steps"], {}
        yield "trainway_run_checkpoint_every_steps", self._every, {}
        yield "trainway_run_restarts", self._restarts, {}
        if step:
            yield "trainway_run_step", step["step"], {}
        yield "trainway_run_last_step_timestamp_seconds", self._stepped, {}
        if step:
            yield "trainway_run_loss", step["loss"], {}
            yield "trainway_run_gradient_norm", step["grad_norm"], {}
            yield "trainway_run_tokens_per_second", step["tokens_per_second"], {}
            if step["mfu"] is not None:
                yield "trainway_run_mfu", step["mfu"], {}
            yield "trainway_run_step_seconds", step["step_seconds"], {}
            for phase, seconds in step["breakdown"].items():
                yield "trainway_run_phase_seconds", seconds, {"phase": phase}
            yield "trainway_run_memory_bytes", step["memory_bytes"], {}
        for each in self._stragglers:
            where = {"rank": str(each.rank), "host": each.host, "local_rank": str(each.local_rank)}
            yield "trainway_run_straggler_ratio", each.ratio, where | {"phase": each.phase}
        yield "trainway_run_skipped_steps_total", self._skipped, {}
        yield "trainway_run_checkpoint_step", self._checkpoint_step, {}
        yield "trainway_run_checkpoint_timestamp_seconds", self._checkpointed, {}
        yield "trainway_run_checkpoint_stall_seconds", self._stall, {}
        yield "trainway_run_failed_saves_total", self._failed, {}


def _handler(text: Any) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_SECONDS

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "the metrics are at /metrics")
                return
            body = text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Do nothing, because scrapes are not logged."""

    return Handler


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)
