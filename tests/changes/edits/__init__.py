"""Edits of the file of a deployed platform: the output of the diff, the resources that may change, and refusals."""

from __future__ import annotations

from tests.changes.edit import Edit, with_keys
from tests.changes.edits.cluster import OF_CLUSTER
from tests.changes.edits.groups import OF_GROUPS, REMOVED_AND_ADDED
from tests.changes.edits.image import OF_IMAGE
from tests.changes.edits.network import OF_NETWORK
from tests.changes.edits.people import OF_PEOPLE
from tests.changes.edits.storage import OF_STORAGE

__all__ = ["EDITS", "REMOVED_AND_ADDED"]

EDITS: dict[str, Edit] = {
    "nothing": Edit((with_keys(),), says=("Nothing changes.",)),
    **OF_GROUPS,
    **OF_IMAGE,
    **OF_STORAGE,
    **OF_PEOPLE,
    **OF_CLUSTER,
    **OF_NETWORK,
}
