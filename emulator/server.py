"""The server process: moto's services behind one port, with our own CloudFormation in front of them.

    python -m emulator.server --port 5000

All state is in memory and ends with the process. Permissions are not enforced: any credentials work, every role can be
assumed, and IAM and bucket policies are kept and ignored.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import traceback
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from emulator import api_limits, loopback, market, moto_repairs, protocol, ssm_limits
from emulator.api_calls import read_call
from emulator.cloudformation import answers, api
from emulator.cloudformation.engine import Engine
from emulator.errors import CloudFormationError, NotEmulated, ResourceError
from emulator.holdings import AccountHoldings
from emulator.published import Publications
from emulator.services import Aws, alarms, pipelines, wait
from emulator.services.alarm_states import Datapoint
from emulator.services.clock import BlockOfTime, Clock

ACCOUNT = "123456789012"  # moto's DEFAULT_ACCOUNT_ID, assigned to every access key that moto has not created
PREFIX = "/_trainway/"
_CREDENTIAL = re.compile(r"Credential=[^/]+/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")

Environ = dict[str, Any]
StartResponse = Callable[..., Any]


class Application:
    """The WSGI application.

    It handles CloudFormation and /_trainway itself, and passes the rest to `services` (moto).
    """

    def __init__(self, services: Callable[[Environ, StartResponse], Iterable[bytes]], endpoint: str) -> None:
        self.services, self.endpoint = services, endpoint
        self.engines: dict[str, Engine] = {}
        self.clocks: dict[str, Clock] = {}
        self.publications = Publications()
        self.market = market.Market()
        self.holdings: dict[str, AccountHoldings] = {}
        self.denied: list[str] = []
        self.regions_not_enabled: list[str] = []
        self.signals: dict[str, list[dict[str, Any]]] = {}

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path.startswith(PREFIX):
            return _answer(start_response, *self._own(environ, path))
        credential = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
        if credential and (answered := self._of_account(credential["region"], credential["service"], environ)):
            return _answer(start_response, *answered)
        if credential and credential["service"] == "cloudformation":
            status, body = self._cloudformation(credential["region"], _body(environ))
            return _answer(start_response, status, body, "text/xml")
        if credential and credential["service"] in ("codepipeline", "codebuild"):
            body = _body(environ)
            if (answered := self._pipelines(credential["region"], environ, body)) is not None:
                return _answer(start_response, *answered)
            environ["wsgi.input"] = io.BytesIO(body)
        if credential and credential["service"] == "ssm":
            self.publications.put_parameters(ACCOUNT, credential["region"])
        if credential and credential["service"] == "eks":
            query = environ.get("QUERY_STRING", "")
            if (answer := self.publications.answer(credential["region"], path, query)) is not None:
                return _answer(start_response, 200, json.dumps(answer).encode(), "application/json")
        return self.services(environ, start_response)

    def engine(self, region: str) -> Engine:
        """Return the CloudFormation of a region. It is created on first use."""
        if region not in self.engines:
            import boto3

            session = boto3.Session(aws_access_key_id="emulator", aws_secret_access_key="emulator")
            loopback.answer_calls_of(session, self)
            self.engines[region] = Engine(Aws(session, ACCOUNT, region, self.endpoint, self.signals))
        return self.engines[region]

    def _own(self, environ: Environ, path: str) -> tuple[int, bytes, str]:
        if path == f"{PREFIX}health":
            return 200, json.dumps({"pid": os.getpid()}).encode(), "application/json"
        if path == f"{PREFIX}resources":
            lines = [line for engine in self.engines.values() for line in answers.everything(engine)]
            return 200, json.dumps(lines).encode(), "application/json"
        if path.startswith(f"{PREFIX}published/") and environ["REQUEST_METHOD"] == "PUT":
            self.publications.publish(path.removeprefix(f"{PREFIX}published/"), json.loads(_body(environ)))
            return 200, b"{}", "application/json"
        if path.startswith(f"{PREFIX}market/") and environ["REQUEST_METHOD"] == "PUT":
            self.market.publish(path.removeprefix(f"{PREFIX}market/"), json.loads(_body(environ)))
            return 200, b"{}", "application/json"
        if path == f"{PREFIX}bought":
            return 200, json.dumps(self.market.bought).encode(), "application/json"
        if path.startswith(f"{PREFIX}layers/"):
            region, _, digest = path.removeprefix(f"{PREFIX}layers/").partition("/")
            return 200, self._holdings(region).layers[digest].encode(), "application/octet-stream"
        if path.startswith(f"{PREFIX}holdings/") and environ["REQUEST_METHOD"] == "PUT":
            return self._hold(path.removeprefix(f"{PREFIX}holdings/"), json.loads(_body(environ)))
        if path.startswith(f"{PREFIX}builds/") and environ["REQUEST_METHOD"] == "PUT":
            outcomes = self.engine(path.removeprefix(f"{PREFIX}builds/")).aws.pipelines.outcomes
            outcomes.clear()
            outcomes.update(json.loads(_body(environ)))
            return 200, b"{}", "application/json"
        if path.startswith(f"{PREFIX}events/") and environ["REQUEST_METHOD"] == "PUT":
            pipelines.send_event(self.engine(path.removeprefix(f"{PREFIX}events/")).aws, json.loads(_body(environ)))
            return 200, b"{}", "application/json"
        if path.startswith(f"{PREFIX}alarms/") and environ["REQUEST_METHOD"] == "PUT":
            return self._alarms(path.removeprefix(f"{PREFIX}alarms/"), json.loads(_body(environ)))
        if path.startswith(f"{PREFIX}clock/") and environ["REQUEST_METHOD"] == "PUT":
            return self._clock(path.removeprefix(f"{PREFIX}clock/"), json.loads(_body(environ)))
        if path.startswith(wait.HANDLES) and environ["REQUEST_METHOD"] == "PUT":
            wrong = wait.receive(self.signals, path.removeprefix(wait.HANDLES), _body(environ))
            return (400, wrong.encode(), "text/plain") if wrong else (200, b"", "text/plain")
        return 404, f"{path} is not part of the emulator".encode(), "text/plain"

    def _of_account(self, region: str, service: str, environ: Environ) -> tuple[int, bytes, str] | None:
        """Return the answer to a call about what moto lacks, or None if another part answers."""
        body = b"" if service == "s3" else _body(environ)
        if service != "s3":
            environ["wsgi.input"] = io.BytesIO(body)
        call, holdings = read_call(service, environ, body), self._holdings(region)
        if call and (refused := holdings.refusal(call) or api_limits.refusal(call)):
            return refused
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        # What a test sells comes before what it gives the account.
        sold = self.market.answer(service, region, target, body)
        return sold or (holdings.answer(call) if call else None)

    def _holdings(self, region: str) -> AccountHoldings:
        """Return what the account has in a Region, beside what moto keeps."""
        if region not in self.holdings:
            made = self.engine(region).aws
            self.holdings[region] = AccountHoldings(
                ACCOUNT,
                region,
                self.endpoint,
                self.denied,
                self.regions_not_enabled,
                addons_of_stacks=made.addons,
                clusters_of_stacks=made.clusters,
            )
        return self.holdings[region]

    def _hold(self, region: str, what: dict[str, Any]) -> tuple[int, bytes, str]:
        try:
            self._holdings(region).set(what)
        except ValueError as error:
            return 400, str(error).encode(), "text/plain"
        return 200, b"{}", "application/json"

    def _pipelines(self, region: str, environ: Environ, body: bytes) -> tuple[int, bytes, str] | None:
        """Return the response of CodePipeline or CodeBuild, or None if moto answers."""
        operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        try:
            found = pipelines.answer(self.engine(region).aws, operation, json.loads(body or b"{}"))
        except ResourceError as error:
            refused = {"__type": "PipelineNotFoundException", "message": str(error)}
            return 400, json.dumps(refused).encode(), "application/x-amz-json-1.1"
        return None if found is None else (200, json.dumps(found).encode(), "application/x-amz-json-1.1")

    def _alarms(self, region: str, asked: dict[str, Any]) -> tuple[int, bytes, str]:
        """Judge the alarms of a Region at a time."""
        points = [Datapoint(**each) for each in asked["points"]]
        states = alarms.judge(self.engine(region).aws, points, asked["now"], asked["quotas"], asked["logs"])
        return 200, json.dumps(states).encode(), "application/json"

    def _clock(self, region: str, asked: dict[str, Any]) -> tuple[int, bytes, str]:
        """Add Capacity Blocks to a Region and set its time. Return what happened, and each group's nodes."""
        clock = self.clocks.setdefault(region, Clock(self.engine(region).aws))
        for block in asked.get("blocks", []):
            times = (datetime.fromisoformat(block[key]) for key in ("start", "end"))
            clock.blocks[block["id"]] = BlockOfTime(block["id"], *times)
        happened = clock.advance(datetime.fromisoformat(asked["now"]))
        return 200, json.dumps({"happened": happened, "nodes": clock.nodes()}).encode(), "application/json"

    def _cloudformation(self, region: str, body: bytes) -> tuple[int, bytes]:
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = form.get("Action", "")
        try:
            function = api.ACTIONS.get(action)
            if function is None:
                raise NotEmulated(f"The CloudFormation action {action!r}")
            operation = protocol.cloudformation_model().operation_model(action)
            engine = self.engine(region)
            with engine.lock:
                answer = function(engine, protocol.parse(operation.input_shape, form))
            return 200, protocol.render(action, operation.output_shape, answer)
        except CloudFormationError as error:
            return error.status, protocol.render_error(error.code, str(error))
        except Exception:
            # A fault of the emulator must be visible. Use 400, because clients repeat a 500 until it looks like
            # success.
            traceback.print_exc()
            return 400, protocol.render_error("EmulatorFault", f"{action}: {traceback.format_exc(limit=-3)}")


def _body(environ: Environ) -> bytes:
    return bytes(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))


def _answer(start_response: StartResponse, status: int, body: bytes, kind: str) -> list[bytes]:
    reason = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found"}[status]
    start_response(f"{status} {reason}", [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def main(arguments: list[str] | None = None) -> None:
    """Serve on loopback until killed. The first line printed is the endpoint. Port 0 selects any free port."""
    parser = argparse.ArgumentParser(prog="emulator.server", description="An emulated AWS on this machine.")
    parser.add_argument("--port", type=int, default=0)
    port = parser.parse_args(arguments).port
    # moto knows AWS's managed policies but loads them only on request. Without them, attaching one fails.
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    moto_repairs.read_service_models_once()
    moto_repairs.allow_what_aws_allows()
    moto_repairs.compare_rules_as_ec2_does()
    moto_repairs.tell_what_file_systems_are()
    moto_repairs.name_the_error_of_an_absent_cluster()
    moto_repairs.describe_eks_clusters_as_eks_does()
    ssm_limits.refuse_what_parameter_store_refuses()
    moto_repairs.answer_requests_faster()
    dispatcher = DomainDispatcherApplication(moto_repairs.without_debugging(create_backend_app))
    services = moto_repairs.refuse_missing_operations(dispatcher)
    application = Application(services, "")
    server = make_server("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler)
    # Use localhost instead of 127.0.0.1, because the CDK CLI prepends a bucket's name to the host name of the endpoint.
    application.endpoint = f"http://localhost:{server.port}"
    os.environ["MOTO_PORT"] = str(server.port)
    print(application.endpoint, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
