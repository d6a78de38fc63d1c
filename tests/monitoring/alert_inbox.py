"""A real Alertmanager with a platform's definition, whose topic on the emulator has a queue for an inbox."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import yaml

from emulator.process import Emulator
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.ports import free_port
from tests.prometheus import program


def written(directory: Path, definition: str) -> dict[str, Any]:
    """Write the template of a definition to a directory, and return its configuration."""
    parts = yaml.safe_load(definition)
    assert parts.keys() == {"template_files", "alertmanager_config"}
    for name, text in parts["template_files"].items():
        (directory / name).write_text(text)
    found: dict[str, Any] = yaml.safe_load(parts["alertmanager_config"])
    return found


def check(directory: Path, configuration: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Write a configuration to a directory, and let amtool check it."""
    (directory / "config.yaml").write_text(yaml.safe_dump(configuration))
    command = [program("amtool"), "check-config", str(directory / "config.yaml")]
    return subprocess.run(command, capture_output=True, text=True)


@dataclass
class Inbox:
    """Where the messages of a topic arrive. `address` is that of Alertmanager."""

    topic: str
    address: str
    sqs: Any
    queue: str
    messages: list[dict[str, str]] = field(default_factory=list)

    def alert(self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        """Send Alertmanager an alert, as Prometheus does."""
        add = [program("amtool"), f"--alertmanager.url=http://{self.address}", "alert", "add", name]
        add += [f"{key}={json.dumps(value)}" for key, value in labels.items()]
        add += [f"--annotation={key}={json.dumps(value)}" for key, value in annotations.items()]
        wait_for("Alertmanager answers", lambda: subprocess.run(add, capture_output=True).returncode == 0)

    def message(self, subject: str) -> str:
        """Wait for the message with a subject, and return its text."""

        def found() -> list[str]:
            received = self.sqs.receive_message(QueueUrl=self.queue).get("Messages", [])
            self.messages += [json.loads(each["Body"]) for each in received]
            return [each["Message"] for each in self.messages if each["Subject"] == subject]

        wait_for(f"the message {subject}", lambda: bool(found()))
        return found()[0]


def topic_with_queue(emulator: Emulator) -> tuple[str, Any, str]:
    """Return the ARN of a new topic, a client of SQS, and the URL of the queue that gets the topic's messages."""
    where: Any = {"endpoint_url": emulator.endpoint, "region_name": emulator.region}
    session = boto3.Session("emulator", "emulator")
    sns, sqs = session.client("sns", **where), session.client("sqs", **where)
    topic = sns.create_topic(Name="alerts")["TopicArn"]
    queue = sqs.create_queue(QueueName="inbox")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return topic, sqs, queue


@contextmanager
def alert_manager(directory: Path, definition: str, topic: str, emulator: Emulator) -> Iterator[str]:
    """Run Alertmanager with a definition, and yield its address. It sends at once what it would group for a while."""
    configuration = written(directory, definition)
    configuration["route"]["group_wait"] = "0s"
    (receiver,) = configuration["receivers"][0]["sns_configs"]
    assert receiver["topic_arn"] == topic
    # What the service adds by itself.
    receiver["api_url"] = emulator.endpoint
    receiver["sigv4"] |= {"access_key": "emulator", "secret_key": "emulator"}
    assert check(directory, configuration).returncode == 0
    address = f"127.0.0.1:{free_port()}"
    command = [program("prometheus-alertmanager"), f"--config.file={directory}/config.yaml"]
    command += [f"--web.listen-address={address}", "--cluster.listen-address=", f"--storage.path={directory}/data"]
    with subprocess.Popen([*command, "--log.level=error"]) as manager:
        try:
            yield address
        finally:
            manager.terminate()


@contextmanager
def inbox(directory: Path, definition: str, emulator: Emulator) -> Iterator[Inbox]:
    """Yield the inbox of a definition in which the word TOPIC stands for the ARN of its topic."""
    topic, sqs, queue = topic_with_queue(emulator)
    with alert_manager(directory, definition.replace("TOPIC", topic), topic, emulator) as address:
        yield Inbox(topic, address, sqs, queue)
