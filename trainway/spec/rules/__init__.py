"""What a platform file must satisfy across its keys: one function a rule, every rule run, every breach reported.

A rule yields `(key path, reason, remedy)` and never raises. The decorator `rule` adds it to `RULES`. This package
imports every module in its folder, so that a new module needs no other change.
"""

from __future__ import annotations

import importlib
import pkgutil

from trainway.spec.rules.rule import RULES

__all__ = ["RULES"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
