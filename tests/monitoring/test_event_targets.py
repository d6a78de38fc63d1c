"""The death of a node is told to a URL, and channels of Slack and of Microsoft Teams come and go with the file."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from emulator import Emulator, running
from tests.delivery.test_failed_pipelines import BUCKET, deployable
from tests.emulator.conftest import Stack
from tests.monitoring.test_event_messages import NODE, UNHEALTHY, run_on
from tests.synthesis import ROOT, Template, templates_of
from trainway.monitoring.events import RESUMES
from trainway.monitoring.tell_people import notification_of

PLATFORM = ROOT / "examples/hyperpod-eks-shared.yaml"
HOST = "inbox.example.com"
SLACK = {"workspace": "T0123ABCD", "channel": "C0123ABCD"}
MICROSOFT_TEAMS = {
    "tenant": "00000000-0000-4000-8000-00000000000a",
    "team": "00000000-0000-4000-8000-00000000000b",
    "channel": "19%3a0123abcd%40thread.tacv2",
}
TOLD = {"slack": SLACK, "microsoft_teams": MICROSOFT_TEAMS}
# Another URL and other channels.
OTHERS = {
    "urls": ["https://events.example.com/other"],
    "slack": SLACK | {"channel": "C0456DEFG"},
    "microsoft_teams": MICROSOFT_TEAMS | {"channel": "19%3a4567cdef%40thread.tacv2"},
}
CHANNELS = ("AWS::Chatbot::MicrosoftTeamsChannelConfiguration", "AWS::Chatbot::SlackChannelConfiguration")


@pytest.fixture
def posted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a server that takes what is posted over TLS, and what it took. Processes trust its certificate.

    SNS posts to public names alone. Processes reach this one through a proxy, which is the server itself.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "inbox")]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file = tmp_path / "inbox.pem"
    file.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(file))
    taken: list[dict[str, Any]] = []

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    class Inbox(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.connection = context.wrap_socket(self.connection, server_side=True)
            self.rfile = self.connection.makefile("rb", -1)
            self.wfile = self.connection.makefile("wb", 0)
            self.close_connection = False

        def do_POST(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Inbox)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.server_port}")
    yield f"https://{HOST}/told", taken
    server.shutdown()
    server.server_close()


def observability(file: Path, **told: Any) -> Template:
    """The stack of the example with URLs and channels as well."""
    document = yaml.safe_load(PLATFORM.read_text())
    file.write_text(yaml.safe_dump(document | {"observability": document["observability"] | told}))
    return templates_of(file)["observability"]


def targets(emulator: Emulator) -> tuple[list[str], list[str]]:
    """The addresses that the topic posts to, and the configured channels."""
    subscriptions = boto3.client("sns").list_subscriptions()["Subscriptions"]
    channels = [each["physical_id"] for each in emulator.resources() if each["type"] in CHANNELS]
    return [each["Endpoint"] for each in subscriptions if each["Protocol"] == "https"], sorted(channels)


@pytest.mark.exhaustive
def test_the_death_of_a_node_is_posted_to_a_url_which_comes_and_goes_with_the_file(
    posted: tuple[str, list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, taken = posted
    with running() as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        stack = Stack(emulator, boto3.client("cloudformation"))
        where: Any = {"LocationConstraint": emulator.region}
        boto3.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=where)
        stack.deploy(deployable(observability(tmp_path / "platform.yaml", urls=[url], **TOLD)))
        urls, channels = targets(emulator)
        assert (urls, len(channels)) == ([url], 2)

        run_on(NODE, "llama-1125")
        emulator.send_event(UNHEALTHY)
        (message,) = taken
        assert message["Type"] == "Notification"
        told = json.loads(message["Message"])
        assert (told["version"], told["source"]) == ("1.0", "custom"), "a channel shows no other form"
        assert told["metadata"] == {"eventType": "NodeUnhealthy"}
        assert told["content"]["title"] == message["Subject"]
        assert f"Node {NODE} is unhealthy: HMA detected fault type" in told["content"]["description"]
        assert "Run: llama-1125 of team research, launched by ana" in told["content"]["description"]
        assert told["content"]["nextSteps"] == [f"HyperPod replaces the node. {RESUMES}"]

        stack.deploy(deployable(observability(tmp_path / "platform.yaml", **OTHERS)))
        assert targets(emulator) == (OTHERS["urls"], channels), "a channel changes in place"
        stack.deploy(deployable(observability(tmp_path / "platform.yaml")))
        assert targets(emulator) == ([], [])


def test_the_topic_posts_to_the_url_of_the_file(tmp_path: Path) -> None:
    resources = observability(tmp_path / "platform.yaml", **OTHERS)["Resources"].values()
    posted = [each["Properties"] for each in resources if each["Type"] == "AWS::SNS::Subscription"]
    assert [each["Endpoint"] for each in posted if each["Protocol"] == "https"] == OTHERS["urls"]


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_channel_gets_the_messages_and_may_do_nothing_in_the_account(kind: str, tmp_path: Path) -> None:
    resources = observability(tmp_path / "platform.yaml", **OTHERS)["Resources"]
    (channel,) = [each for each in resources.values() if each["Type"] == kind]
    (topic,) = [name for name, each in resources.items() if each["Type"] == "AWS::SNS::Topic"]
    assert channel["Properties"]["SnsTopicArns"] == [{"Ref": topic}]
    (guardrail,) = channel["Properties"]["GuardrailPolicies"]
    assert "policy/AWSDenyAll" in json.dumps(guardrail)
    role = channel["Properties"]["IamRoleArn"]["Fn::GetAtt"][0]
    policies = [each for each in resources.values() if each["Type"] == "AWS::IAM::Policy"]
    assert not [each for each in policies if {"Ref": role} in each["Properties"]["Roles"]]


def test_a_message_without_a_next_step_keeps_its_words() -> None:
    content = json.loads(notification_of("HealthIssue", "subject", "words\n\nWhat happens next: wait"))["content"]
    assert (content["description"], content["nextSteps"]) == ("words", ["wait"])
