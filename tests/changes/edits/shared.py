"""Documents and lines of the diff that edits of several topics share."""

from __future__ import annotations

from tests.changes.edit import base

AA, BB, CC, DD = base("any", "eks")["node_groups"]
LINKS = ("LustreCorpusRepository", "LustreCheckpointsRepository", "LustreRunsRepository")
# Lines that the diff prints.
NO_NODES_ELSEWHERE = "no changes: live-network, live-storage, live-registry, live-control-plane, live-file-system, "
ONLY_THE_CLUSTER = f"{NO_NODES_ELSEWHERE}live-image, live-mirror, live-observability"
INSTALLS = "  pipeline          installs charts and applies Kubernetes objects"
