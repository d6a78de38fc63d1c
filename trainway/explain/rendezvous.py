"""Match a rendezvous of torchrun at which all nodes waited for more nodes until it timed out.

Where one node is missing, the others wait, too. What tells the two apart is how many nodes the job has, and no log says
that. So the finding names both, and how many came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainway.explain.continued import has_steps
from trainway.explain.evidence import Evidence, Log
from trainway.explain.log_line_at import log_line_at
from trainway.explain.matches import Match, quote_log_line
from trainway.explain.rules import Level

# torch/distributed/elastic/rendezvous/dynamic_rendezvous.py of PyTorch 2.13. The first node that gives up closes it.
_GAVE_UP = re.compile(r"\bRendezvousTimeoutError\b")
_CLOSED = re.compile(r"\bRendezvous(?:Timeout|Closed)Error\b")


def rendezvous_matches(evidence: Evidence, year: int) -> Iterator[Match]:
    """Yield a match if at least two nodes joined the rendezvous, and the rendezvous failed in every log."""
    waited = [(log, found) for log in evidence.logs if (found := _CLOSED.search(log.text))]
    first = next(((log, found) for log, found in waited if _GAVE_UP.search(log.text)), None)
    nodes = {_node(log) for log, _ in waited}
    begun = any(has_steps(log.text) for log in evidence.logs)
    if first is None or len(nodes) < 2 or len(waited) < len(evidence.logs) or begun:
        return
    log, found = first
    yield Match(
        name="rendezvous-too-few-nodes",
        level=Level.SYMPTOM,
        cause=f"{len(nodes)} nodes came, and each waited for more: the command waits for more nodes than the job has "
        "(--nnodes), or one never started it",
        remedy=f"where the job has {len(nodes)} nodes, give the command --nnodes={len(nodes)}, or leave the option to "
        "`trainway launch`; where it has more, see why a node is missing: a pod that is pending, an image that is "
        "still pulled, or a port that the security group closes",
        source="https://docs.pytorch.org/docs/stable/elastic/run.html",
        quote=quote_log_line(log_line_at(log, found.start(), year)),
        precedence=1,
    )


def _node(log: Log) -> str:
    """Return the node or the pod of a log. `kubectl logs --previous` gives a second log of the same pod."""
    return log.node or re.sub(r"[-_.]previous(?=\.|$)", "", log.name)
