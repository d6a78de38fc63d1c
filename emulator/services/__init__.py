"""The resource types that an emulated service keeps. Every other type is a record (emulator.registry.records)."""

from emulator.services import alarms, compute, data_stores, hyperpod, identity, network, operations, pipelines, wait
from emulator.services.service import Aws, Service

SERVICES: dict[str, Service] = {
    **alarms.SERVICES,
    **network.SERVICES,
    **compute.SERVICES,
    **hyperpod.SERVICES,
    **identity.SERVICES,
    **data_stores.SERVICES,
    **operations.SERVICES,
    **pipelines.SERVICES,
    **wait.SERVICES,
}

__all__ = ["SERVICES", "Aws", "Service"]
