"""The metrics on the panels and alarms of a platform."""

from __future__ import annotations

from tests.monitoring.test_alarms import platform
from trainway.monitoring.alarms import alarms
from trainway.monitoring.panels import panels
from trainway.spec.facts.catalogue import load_catalogue


def used(orchestrator: str) -> set[str]:
    """Return the metrics on the panels and alarms of the platform that `platform` has for an orchestrator."""
    found, catalogue = platform(orchestrator), load_catalogue()
    of_alarms = {each for alarm in alarms(found, catalogue) for each in alarm.conditions[0].metrics}
    return of_alarms | {each for panel in panels(found, catalogue) for each in panel.metrics}
