"""The resource types that an emulated service keeps. Every other type of the registry is a record (records.py)."""

from trainway.emulator.services import compute, identity, network, operations, storage, wait
from trainway.emulator.services.service import Aws, Service

SERVICES: dict[str, Service] = {
    **network.SERVICES,
    **compute.SERVICES,
    **identity.SERVICES,
    **storage.SERVICES,
    **operations.SERVICES,
    **wait.SERVICES,
}

__all__ = ["SERVICES", "Aws", "Service"]
