"""An emulated AWS that refuses: a server in front of the emulator that asks an IAM evaluator about each request.

It answers for S3 and for the services whose requests are JSON or forms. A request whose IAM action the tests do not
know is refused, too, and `unknown` names it. The emulated SageMaker has done a training job at once, and cannot stop
one: here, a job runs until somebody stops it.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import boto3

from emulator import Emulator
from tests.seams.evaluator import Question, allowed, role
from tests.seams.launch_calls import Call
from tests.seams.policies import Document
from tests.seams.resolved import ACCOUNT
from tests.seams.sdk_permissions import Permission, permissions_of

CREDENTIAL = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")
# Headers that are about one connection, and not about the request.
OF_THE_CONNECTION = {"connection", "host", "transfer-encoding", "content-length", "date", "expect", "server"}
# An operation of S3 by its method, whether it names an object, and the key in its query that tells it from others.
# https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html (read 2026-11-25)
S3_OPERATIONS = {
    ("GET", False, "list-type"): "ListObjectsV2",
    ("GET", True, None): "GetObject",
    ("HEAD", True, None): "GetObject",
    ("PUT", True, None): "PutObject",
    ("DELETE", True, None): "DeleteObject",
    ("POST", True, "uploads"): "PutObject",
    ("PUT", True, "partNumber"): "PutObject",
    ("POST", True, "uploadId"): "PutObject",
}
# The emulator does not know whose the access keys are.
WHO = f"""<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:sts::{ACCOUNT}:assumed-role/{{role}}/{{key}}</Arn><UserId>AROA:{{key}}</UserId><Account>{ACCOUNT}</Account>
</GetCallerIdentityResult></GetCallerIdentityResponse>"""


@dataclass(frozen=True)
class Person:
    """Somebody with the role of a persona: its name in IAM, and its policies."""

    role: str
    policies: Sequence[Document]


@dataclass
class Enforced:
    """The server. `refused` has each refusal as its person, action, and resource."""

    endpoint: str = ""
    refused: list[tuple[str, str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)

    def environment(self, emulator: Emulator, person: str) -> dict[str, str]:
        """Return the variables with which a child process asks this server with the credentials of a person."""
        return {**emulator.child_environment(), "AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": person}


@contextmanager
def enforced(
    emulator: Emulator, people: Mapping[str, Person], bucket_policies: Mapping[str, Document]
) -> Iterator[Enforced]:
    """Serve an AWS that allows what the policies of `people`, by their access keys, and those of the buckets allow."""
    found = Enforced()

    def denied(key: str, call: Call) -> Permission | None:
        """Return the first permission that the call requires and the person does not have, or None."""
        person = people[key]
        needed = list(permissions_of(call, emulator.region))
        asked = [_question(person, each, call, emulator, bucket_policies) for each in needed]
        answers = allowed(asked) if asked else []
        return next((each for each, may in zip(needed, answers, strict=True) if not may), None)

    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(emulator, people, found, denied))
    # boto3 writes the bucket into the path of a URL if the host is an IP address.
    found.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _question(
    person: Person, needed: Permission, call: Call, emulator: Emulator, bucket_policies: Mapping[str, Document]
) -> Question:
    context: dict[str, str | list[str]] = dict(needed.context)
    theirs = None
    if call.service == "s3":
        theirs = bucket_policies.get(call.parameters["Bucket"])
        if "Prefix" in call.parameters:
            context["s3:prefix"] = call.parameters["Prefix"]
    elif call.service == "sagemaker" and call.operation in ("DescribeTrainingJob", "StopTrainingJob"):
        context |= {f"aws:ResourceTag/{key}": value for key, value in _tags(emulator, call).items()}
    return Question(role(person.role), needed.action, needed.resource, person.policies, theirs, context=context)


def _tags(emulator: Emulator, call: Call) -> dict[str, str]:
    """Return the tags of a training job as the emulated SageMaker has them."""
    make: Any = boto3.client
    keys = {"aws_access_key_id": "emulator", "aws_secret_access_key": "emulator"}
    sagemaker = make("sagemaker", endpoint_url=emulator.endpoint, region_name=emulator.region, **keys)
    try:
        job = sagemaker.describe_training_job(TrainingJobName=call.parameters["TrainingJobName"])
    except sagemaker.exceptions.ClientError:
        return {}
    return {each["Key"]: each["Value"] for each in sagemaker.list_tags(ResourceArn=job["TrainingJobArn"])["Tags"]}


def call_of(service: str, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Call | None:
    """Return the call that a request makes, or None if the tests do not know it."""
    if service == "s3":
        return _call_of_s3(method, target)
    if operation := headers.get("X-Amz-Target", "").rpartition(".")[2]:
        return Call(service, operation, json.loads(body or b"{}"))
    form = dict(parse_qsl(body.decode(), keep_blank_values=True))
    return Call(service, form["Action"], form) if "Action" in form else None


def _call_of_s3(method: str, target: str) -> Call | None:
    parts = urlsplit(target)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    kinds = {kind for each, named, kind in S3_OPERATIONS if (each, named) == (method, bool(key)) and kind in query}
    operation = S3_OPERATIONS.get((method, bool(key), kinds.pop() if kinds else None))
    if operation is None:
        return None
    parameters = {"Bucket": bucket, **({"Key": key} if key else {"Prefix": query.get("prefix", "")})}
    return Call("s3", operation, parameters)


def _handler(
    emulator: Emulator,
    people: Mapping[str, Person],
    found: Enforced,
    denied: Callable[[str, Call], Permission | None],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            signed = CREDENTIAL.search(self.headers.get("Authorization", ""))
            if signed is None:
                return self.refuse("s3", "", "a request that nobody has signed")
            key, _, service = signed.groups()
            call = call_of(service, self.command, self.path, dict(self.headers), body)
            try:
                lacks = denied(key, call) if call else None
            except KeyError:
                call = None
            if call is None:
                found.unknown.append(f"{service} {self.command} {self.path}")
                return self.refuse(service, key, "a request that the tests do not know")
            if lacks:
                found.refused.append((key, lacks.action, lacks.resource))
                return self.refuse(service, key, f"{lacks.action} on resource: {lacks.resource}")
            return self.forward(key, call, body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

        def forward(self, key: str, call: Call, body: bytes) -> None:
            if call.operation == "GetCallerIdentity":
                return self.tell(200, {"Content-Type": "text/xml"}, WHO.format(key=key, role=people[key].role).encode())
            if call.operation == "StopTrainingJob":
                found.stopped.add(call.parameters["TrainingJobName"])
                return self.tell(200, {"Content-Type": "application/x-amz-json-1.1"}, b"{}")
            headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_THE_CONNECTION}
            # Otherwise urllib says that the body is a form.
            headers.setdefault("Content-Type", "application/octet-stream")
            asked = urllib.request.Request(
                emulator.endpoint + self.path, data=body or None, headers=headers, method=self.command
            )
            try:
                with urllib.request.urlopen(asked, timeout=60) as answered:
                    text = answered.read()
                    if call.operation == "DescribeTrainingJob":
                        text = self.described(call, json.loads(text))
                    self.tell(answered.status, dict(answered.headers), text)
            except urllib.error.HTTPError as error:
                self.tell(error.code, dict(error.headers), error.read())

        def described(self, call: Call, job: dict[str, Any]) -> bytes:
            ended = call.parameters["TrainingJobName"] in found.stopped
            job |= {"TrainingJobStatus": "Stopped" if ended else "InProgress"}
            job |= {"SecondaryStatus": "Stopped" if ended else "Training"}
            return json.dumps(job).encode()

        def refuse(self, service: str, who: str, what: str) -> None:
            said = f"User: {who} is not authorized to perform: {what}"
            if service in ("s3", "ec2", "sts"):
                code = {"ec2": "UnauthorizedOperation"}.get(service, "AccessDenied")
                error = f"<Error><Code>{code}</Code><Message>{said}</Message></Error>"
                text = error if service == "s3" else f"<Response><Errors>{error}</Errors></Response>"
                return self.tell(403, {"Content-Type": "application/xml"}, text.encode())
            text = json.dumps({"__type": "AccessDeniedException", "message": said})
            return self.tell(400, {"Content-Type": "application/x-amz-json-1.1"}, text.encode())

        def tell(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in OF_THE_CONNECTION:
                    self.send_header(name, value)
            length = headers["Content-Length"] if self.command == "HEAD" and status == 200 else str(len(body))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    return Handler
