"""The real Alertmanager takes the definition, and an alert becomes a message of the topic on the emulator."""

from __future__ import annotations

from pathlib import Path

from emulator import running
from tests.monitoring.alert_inbox import check, inbox, written
from trainway.monitoring.alert_manager import alert_manager_definition

TOPIC = "arn:aws:sns:us-west-2:111122223333:alerts"


def test_alertmanager_takes_the_definition_and_finds_a_mistake(tmp_path: Path) -> None:
    configuration = written(tmp_path, alert_manager_definition(TOPIC, "us-west-2"))
    sound = check(tmp_path, configuration)
    assert sound.returncode == 0, sound.stderr
    assert "1 templates" in sound.stdout
    configuration["route"]["receiver"] = "nobody"
    assert check(tmp_path, configuration).returncode != 0


def test_an_alert_is_a_message_of_the_topic(tmp_path: Path) -> None:
    about = {"summary": "Run llama has not taken a step for 20m.", "runbook": "docs/alarms.md#runhangs"}
    with running() as emulator, inbox(tmp_path, alert_manager_definition("TOPIC", "us-west-2"), emulator) as people:
        people.alert("RunHangs", {"severity": "critical", "run": "llama"}, about)
        text = people.message("Trainway: firing: RunHangs")
    assert text.splitlines()[:3] == [
        "RunHangs (critical) is firing.",
        "Run llama has not taken a step for 20m.",
        "What to do: docs/alarms.md#runhangs",
    ]
