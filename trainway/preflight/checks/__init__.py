"""The checks of an account before a deploy: one file a check, every check run, every finding reported.

A check is a function that yields findings. The decorator `check` adds it to `CHECKS`. This package imports every module
in its folder, so that a new module needs no other change.
"""

from __future__ import annotations

import importlib
import pkgutil

from trainway.preflight.checks.table import CHECKS

__all__ = ["CHECKS"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
