"""The lock of the last deploy, as an SSM parameter keeps it.

`trainway lock --from-deployed` writes a lost lock again from it. `trainway diff` names what somebody changed in a lock.
"""

from __future__ import annotations

from pydantic import ValidationError

from trainway.spec.deployed_file import MOST_BYTES
from trainway.spec.deployment.next_lock import deployed_lock, next_lock
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.lock import Lock
from trainway.spec.platform import Platform


def recorded_lock_name(platform: str) -> str:
    """Return the name of the SSM parameter that holds the lock of the last deploy."""
    return f"/trainway/{platform}/lock"


def recorded_lock(platform: Platform, catalogue: Catalogue) -> Lock:
    """Return the lock that is beside a platform file once the platform is deployed.

    It is the same before and after `trainway lock`, so that the template does not depend on which of them ran.
    """
    return deployed_lock(platform.with_lock(next_lock(platform, catalogue)), catalogue)


def written(lock: Lock) -> str | None:
    """Return the text of the parameter, or None if a parameter cannot hold it."""
    text = lock.model_dump_json(exclude_defaults=True)
    return text if len(text.encode()) <= MOST_BYTES else None


def read(text: str) -> Lock | None:
    """Return the lock that a parameter's text holds, or None if another version of Trainway wrote it."""
    try:
        return Lock.model_validate_json(text)
    except ValidationError:
        return None
