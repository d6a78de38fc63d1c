"""Verify that the nodes can train together: their fabric, image, storage, clocks, and GPUs.

`verify_nodes` submits a job that runs probe.py on every node. `facts_of_log` extracts facts from its output,
`run_checks` returns a result for each check and node, and show.py prints them as a table or a document.
"""

from trainway.verify.checks import CHECKS, run_checks
from trainway.verify.facts import Expected, Facts, expected_versions, facts_of_log
from trainway.verify.first_minute import fabric_of_job
from trainway.verify.nodes import verify_nodes
from trainway.verify.probe_job import probe_command, probe_environment
from trainway.verify.probe_request import ProbeRequest, probe_point, probe_request
from trainway.verify.results import Result, Status, exit_status
from trainway.verify.show import as_document, as_table

__all__ = [
    "CHECKS",
    "Expected",
    "Facts",
    "ProbeRequest",
    "Result",
    "Status",
    "as_document",
    "as_table",
    "exit_status",
    "expected_versions",
    "fabric_of_job",
    "facts_of_log",
    "probe_command",
    "probe_environment",
    "probe_point",
    "probe_request",
    "run_checks",
    "verify_nodes",
]
