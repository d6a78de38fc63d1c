"""The table of the checks of a deployed platform. Each module beside this one adds its own check."""

from __future__ import annotations

from trainway.preflight.check import CheckTable

DEPLOYED_CHECKS = CheckTable()
check = DEPLOYED_CHECKS.check
