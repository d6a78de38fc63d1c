"""Starting, finding and stopping the server, and what a child process is told about it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import emulator
from emulator import process
from tests.emulator_forks import START_PROGRAM


@pytest.fixture
def started_as_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start servers as `trainway emulator` does. The other tests fork them from a process that is ready."""
    monkeypatch.setattr(process, "start_server", START_PROGRAM)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("directory", "started_as_a_program")
def test_start_status_stop() -> None:
    assert emulator.status() is None
    started = emulator.start()
    try:
        status = emulator.status()
        assert status is not None
        assert (status.endpoint, status.pid, status.resources) == (started.endpoint, started.pid, 0)
        assert 0 <= status.age < 60
        with pytest.raises(emulator.EmulatorError, match="runs already at"):
            emulator.start()
    finally:
        stopped = emulator.stop()
    assert stopped == started
    assert emulator.status() is None
    assert emulator.stop() is None
    with pytest.raises(ProcessLookupError):
        os.kill(started.pid, 0)


def test_a_process_that_only_has_the_old_number_is_left_alone(directory: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    try:
        state = directory / ".trainway"
        state.mkdir()
        (state / "emulator.json").write_text(
            f'{{"endpoint": "http://localhost:1", "pid": {bystander.pid}, "region": "us-west-2",'
            f' "directory": "{state}", "started": 0}}'
        )
        emulator.stop()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.usefixtures("directory", "started_as_a_program")
def test_a_server_that_cannot_start_says_why() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        pytest.raises(emulator.EmulatorError, match=r"(?s)ended with exit status.*in use"),
    ):
        emulator.start(port=first.getsockname()[1])


@pytest.mark.usefixtures("directory")
def test_the_environment_keeps_the_users_own_aws_out_and_jsii_s_cache_in() -> None:
    with emulator.running(region="eu-north-1") as running:
        environment = running.environment()
    assert environment["AWS_ENDPOINT_URL"].startswith("http://localhost:")
    assert environment["AWS_REGION"] == "eu-north-1"
    assert environment["AWS_EC2_METADATA_DISABLED"] == "true"
    home = str(Path.home())
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "CDK_HOME"):
        assert not environment[name].startswith(home)
    assert "HOME" not in environment


def test_a_child_sees_none_of_the_users_aws_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://elsewhere")
    child = emulator.Emulator("http://localhost:1", 1, "us-west-2", "/tmp/x", 0.0).child_environment()
    assert child["AWS_ENDPOINT_URL"] == "http://localhost:1"
    assert not {"AWS_PROFILE", "AWS_ENDPOINT_URL_S3"} & child.keys()
    assert child["PATH"] == os.environ["PATH"]


def test_importing_costs_no_heavy_module() -> None:
    heavy = ["moto", "boto3", "jsonschema", "cfnlint"]
    code = f"import sys, emulator; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
