"""The checks of a deployed platform: one file a check, as trainway.preflight.checks has them before a deploy."""

from __future__ import annotations

import importlib
import pkgutil

from trainway.doctor.checks.table import DEPLOYED_CHECKS

__all__ = ["DEPLOYED_CHECKS"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
