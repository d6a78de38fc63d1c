"""The table of the checks before a deploy. Each module beside this one adds its own check."""

from __future__ import annotations

from trainway.preflight.check import CheckTable

CHECKS = CheckTable()
check = CHECKS.check
