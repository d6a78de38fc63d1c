"""A stage always tells CloudFormation how it ended, with the end of its log when that was badly."""

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class WaitHandle(ThreadingHTTPServer):
    """Stands for the presigned URL: takes PUTs and keeps them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.signals: list[dict[str, str]] = []
        self.content_types: list[str | None] = []
        self.refusals = 0

    @property
    def url(self) -> str:
        # A real one has an ARN, signs and ampersands in it.
        return (
            f"http://127.0.0.1:{self.server_address[1]}/arn%3Aaws%3Acloudformation/Handle?Expires=1&Signature=a%2Bb%3D"
        )


class Receiver(BaseHTTPRequestHandler):
    server: WaitHandle

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.refusals > 0:
            self.server.refusals -= 1
            self.send_response(503)
        else:
            self.server.signals.append(json.loads(body))
            self.server.content_types.append(self.headers["Content-Type"])
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def handle() -> Iterator[WaitHandle]:
    server = WaitHandle()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def stage(workshop, handle):
    """Runs a stage `trial` whose script is the given bash."""

    def run(body: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (workshop.root / "delivery" / "trial.sh").write_text(f"source {workshop.root}/delivery/lib.sh\n{body}\n")
        return workshop.run("stage.sh", "trial", WAIT_HANDLE_URL=handle.url, **{"SIGNAL_RETRIES": "1", **variables})

    return run


def test_success_carries_what_the_stage_reports(stage, handle):
    done = stage("echo working; report sha256:0123")
    assert done.returncode == 0
    assert "working" in done.stdout
    assert handle.signals == [
        {"Status": "SUCCESS", "Reason": "stage trial", "UniqueId": "trial", "Data": "sha256:0123"}
    ]


def test_no_content_type_is_sent_because_the_url_is_signed_without_one(stage, handle):
    stage("true")
    assert handle.content_types == [None]


def test_failure_carries_the_last_lines_and_the_status(stage, handle):
    done = stage("seq 1 2000; echo the disk is full >&2; exit 7")
    assert done.returncode == 7
    [told] = handle.signals
    assert told["Status"] == "FAILURE"
    assert told["Reason"].startswith("stage trial ended with status 7. Last lines of its log:\n")
    assert told["Reason"].endswith("\n2000\nthe disk is full")
    assert len(told["Reason"]) <= 1500


def test_any_character_in_the_log_arrives(stage, handle):
    quoting = r"""printf 'quote " backslash \\ tab\tdollar $HOME `id` é 日本 \xff\n'"""
    terminal = r"""printf '\033[31mred\033[0m 10%%\r100%%\n'"""
    stage(f"{quoting}; {terminal}; exit 1")
    last = handle.signals[0]["Reason"].splitlines()
    assert last[1] == 'quote " backslash \\ tab dollar $HOME `id` é 日本'
    assert last[2] == "100%"


def test_a_log_of_wide_characters_still_fits_the_limit_of_a_signal(stage, handle):
    stage("python3 -c \"print('\\U0001F600' * 5000)\"; exit 1", PYTHONIOENCODING="utf-8")
    assert len(json.dumps(handle.signals[0])) <= 4096
    assert "\U0001f600" in handle.signals[0]["Reason"]


def test_what_a_failed_stage_reported_is_not_passed_on(stage, handle):
    stage("report half-built; exit 1")
    assert handle.signals[0]["Data"] == ""


def test_a_stage_past_its_limit_is_ended_and_reported(stage, handle):
    done = stage("echo waiting; sleep 3600", STAGE_TIMEOUT_SECONDS="1")
    assert done.returncode == 124
    assert "ran past its limit of 1 seconds" in handle.signals[0]["Reason"]
    assert handle.signals[0]["Reason"].endswith("waiting")


def test_a_stage_that_ignores_its_end_is_killed_and_reported(stage, handle):
    body = "trap '' TERM; echo stubborn; while :; do sleep 1; done"
    done = stage(body, STAGE_TIMEOUT_SECONDS="1", STAGE_KILL_SECONDS="1")
    assert done.returncode == 137
    assert "ran past its limit" in handle.signals[0]["Reason"]


def test_a_killed_stage_is_reported(workshop, handle):
    (workshop.root / "delivery" / "trial.sh").write_text("echo begun\nsleep 3600\n")
    process = subprocess.Popen(
        ["bash", str(workshop.root / "delivery" / "stage.sh"), "trial"],
        env=workshop.variables(WAIT_HANDLE_URL=handle.url),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode == 143
    assert handle.signals[0]["Reason"].startswith("stage trial was stopped by signal TERM")


def test_the_signal_is_repeated_while_the_service_is_busy(stage, handle):
    handle.refusals = 1
    assert stage("true").returncode == 0
    assert [told["Status"] for told in handle.signals] == ["SUCCESS"]


def test_a_stage_fails_when_cloudformation_cannot_be_told(stage, handle):
    handle.refusals = 100
    done = stage("true")
    assert done.returncode == 1
    assert "could not be told" in done.stderr


def test_without_a_handle_nothing_is_told(workshop):
    (workshop.root / "delivery" / "trial.sh").write_text("echo fine\n")
    done = workshop.run("stage.sh", "trial")
    assert (done.returncode, done.stdout) == (0, "fine\n")


@pytest.mark.parametrize("name", ["", "absent", "../container/x", "lib.sh"])
def test_an_unknown_stage_is_refused(workshop, name: str):
    done = workshop.run("stage.sh", name)
    assert done.returncode == 1
    assert "usage: stage.sh" in done.stderr


def test_data_over_the_limit_is_refused(stage):
    done = stage("report \"$(printf 'x%.0s' {1..5000})\"")
    assert done.returncode == 1
    assert "CloudFormation takes 4096" in done.stderr


def test_no_file_is_left_behind(stage, tmp_path: Path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    stage("report x", TMPDIR=str(scratch))
    assert list(scratch.iterdir()) == []
