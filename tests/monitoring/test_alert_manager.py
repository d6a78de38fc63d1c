"""The real Alertmanager takes the definition, and an alert becomes a message of the topic on the emulator."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import boto3
import yaml

from emulator import running
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.ports import free_port
from tests.prometheus import program
from trainway.monitoring.alert_manager import alert_manager_definition

TOPIC = "arn:aws:sns:us-west-2:111122223333:alerts"


def written(directory: Path, topic: str = TOPIC) -> dict[str, Any]:
    """Write the template of a definition to a directory, and return its configuration."""
    definition = yaml.safe_load(alert_manager_definition(topic, "us-west-2"))
    assert definition.keys() == {"template_files", "alertmanager_config"}
    for name, text in definition["template_files"].items():
        (directory / name).write_text(text)
    found: dict[str, Any] = yaml.safe_load(definition["alertmanager_config"])
    return found


def check(directory: Path, configuration: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    (directory / "config.yaml").write_text(yaml.safe_dump(configuration))
    command = [program("amtool"), "check-config", str(directory / "config.yaml")]
    return subprocess.run(command, capture_output=True, text=True)


def test_alertmanager_takes_the_definition_and_finds_a_mistake(tmp_path: Path) -> None:
    configuration = written(tmp_path)
    sound = check(tmp_path, configuration)
    assert sound.returncode == 0, sound.stderr
    assert "1 templates" in sound.stdout
    configuration["route"]["receiver"] = "nobody"
    assert check(tmp_path, configuration).returncode != 0


def test_an_alert_is_a_message_of_the_topic(tmp_path: Path) -> None:
    with running() as emulator:
        where: Any = {"endpoint_url": emulator.endpoint, "region_name": emulator.region}
        session = boto3.Session("emulator", "emulator")
        sns, sqs = session.client("sns", **where), session.client("sqs", **where)
        topic = sns.create_topic(Name="alerts")["TopicArn"]
        queue = sqs.create_queue(QueueName="inbox")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

        configuration = written(tmp_path, topic)
        configuration["route"]["group_wait"] = "0s"
        (receiver,) = configuration["receivers"][0]["sns_configs"]
        # What the service adds by itself.
        receiver["api_url"] = emulator.endpoint
        receiver["sigv4"] |= {"access_key": "emulator", "secret_key": "emulator"}
        assert check(tmp_path, configuration).returncode == 0
        address = f"127.0.0.1:{free_port()}"
        command = [program("prometheus-alertmanager"), f"--config.file={tmp_path}/config.yaml"]
        command += [f"--web.listen-address={address}", "--cluster.listen-address=", f"--storage.path={tmp_path}/data"]
        with subprocess.Popen([*command, "--log.level=error"]) as manager:
            try:
                add = [program("amtool"), f"--alertmanager.url=http://{address}", "alert", "add", "RunHangs"]
                add += [
                    "severity=critical",
                    "run=llama",
                    "--annotation=summary=Run llama has not taken a step for 20m.",
                ]
                add += ["--annotation=runbook=docs/alarms.md#runhangs"]
                wait_for("Alertmanager answers", lambda: subprocess.run(add, capture_output=True).returncode == 0)
                found: list[Any] = []

                def received() -> bool:
                    found.extend(sqs.receive_message(QueueUrl=queue).get("Messages", []))
                    return bool(found)

                wait_for("the message", received)
            finally:
                manager.terminate()
    body = json.loads(found[0]["Body"])
    assert body["Subject"] == "Trainway: firing: RunHangs"
    assert body["Message"].splitlines()[:3] == [
        "RunHangs (critical) is firing.",
        "Run llama has not taken a step for 20m.",
        "What to do: docs/alarms.md#runhangs",
    ]
