"""A host of a training job knows what SageMaker wrote down for it, and starts torchrun with it."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from training.hosts.locations import resolve
from trainway.launch.node.exit_statuses import NOT_FOUND, CannotStart, StoppedBefore
from trainway.launch.node.passed_signals import PASSED_ON, PassedSignals
from trainway.launch.node.sagemaker_host import Hosts, host_environment, main, read_hosts, wait_for_first

HOSTS = Hosts(("algo-1", "algo-2"), "algo-2", "eth1")


@pytest.fixture
def signals() -> Iterator[PassedSignals]:
    """The signals of a host, whose handlers this process then has no longer."""
    before = {number: signal.getsignal(number) for number in PASSED_ON}
    yield PassedSignals()
    for number, handler in before.items():
        signal.signal(number, handler)


def told(run: Path, **more: str) -> dict[str, str]:
    """What the launcher tells every host."""
    return {"TRAINWAY_RUN": str(run), "PET_RDZV_CONF": "read_timeout=60", **more}


def test_the_hosts_are_those_that_sagemaker_wrote_down(tmp_path: Path) -> None:
    file = tmp_path / "resourceconfig.json"
    # The example of AWS's page, with what newer ones have beside it.
    written = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth1"}
    file.write_text(json.dumps(written | {"current_instance_type": "ml.p5.48xlarge", "instance_groups": []}))
    assert read_hosts(file) == HOSTS


def test_all_hosts_meet_at_the_first_which_knows_that_it_is_the_one(tmp_path: Path) -> None:
    first = host_environment(told(tmp_path), Hosts(HOSTS.names, "algo-1", "eth1"), port=29500, channels=[])
    other = host_environment(told(tmp_path), HOSTS, port=29500, channels=[])
    assert first["PET_RDZV_ENDPOINT"] == other["PET_RDZV_ENDPOINT"] == "algo-1:29500"
    assert first["PET_RDZV_CONF"] == "read_timeout=60,is_host=true"
    assert other["PET_RDZV_CONF"] == "read_timeout=60,is_host=false"
    assert other["PET_LOCAL_ADDR"] == "algo-2"
    assert other["NCCL_SOCKET_IFNAME"] == other["GLOO_SOCKET_IFNAME"] == "eth1"
    assert other["PET_LOG_DIR"] == f"{tmp_path}/logs/algo-2"


def test_a_location_that_a_channel_holds_is_read_there_and_others_of_its_scheme_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = json.dumps({"s3": "s3://bucket", "fsx": "s3://bucket"})
    environment = host_environment(
        told(tmp_path, TRAINWAY_LOCATIONS=roots), HOSTS, port=1, channels=["fsx:/corpus/web=data-0"]
    )
    monkeypatch.setenv("TRAINWAY_LOCATIONS", environment["TRAINWAY_LOCATIONS"])
    assert resolve("fsx:/corpus/web") == resolve("fsx:/corpus/web/") == "/opt/ml/input/data/data-0"
    assert resolve("fsx:/corpus/web/en") == "/opt/ml/input/data/data-0/en"
    assert resolve("fsx:/corpus/website") == "s3://bucket/corpus/website"
    assert resolve("s3:/corpus/web") == "s3://bucket/corpus/web"


def test_metrics_go_elsewhere_where_they_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    environment = host_environment(told(tmp_path / "file" / "run"), HOSTS, port=1, channels=[])
    assert Path(environment["TRAINWAY_RUN"]).is_dir()
    assert "cannot be written to" in capsys.readouterr().err


def test_hosts_wait_for_the_first_to_listen(signals: PassedSignals) -> None:
    other = Hosts(("localhost", "algo-2"), "algo-2", "lo")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        with pytest.raises(CannotStart, match=rf"localhost: port {port} cannot be reached after 0 seconds"):
            wait_for_first(other, port, signals, seconds=0)
        threading.Timer(0.5, listener.listen).start()
        wait_for_first(other, port, signals, seconds=300)


def test_the_first_host_waits_for_its_own_name(signals: PassedSignals) -> None:
    wait_for_first(Hosts(("localhost",), "localhost", "lo"), 29500, signals, seconds=0)
    with pytest.raises(CannotStart, match=r"algo-1\.invalid: port 29500 cannot be reached"):
        wait_for_first(Hosts(("algo-1.invalid",), "algo-1.invalid", "lo"), 29500, signals, seconds=0)


def test_a_host_that_waits_can_be_told_to_stop(signals: PassedSignals) -> None:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(StoppedBefore):
        wait_for_first(Hosts(("algo-1.invalid",), "algo-1.invalid", "lo"), 29500, signals, seconds=300)


def test_elsewhere_than_on_sagemaker_it_says_so(signals: PassedSignals, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port=1", "--", "torchrun"], signals) == NOT_FOUND
    assert "resourceconfig.json: there is no such file" in capsys.readouterr().err
