"""Where there is no Slurm, a session on the cluster's login node has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest
from botocore.model import StructureShape
from botocore.validate import validate_parameters

from tests.launch.slurm.requests import on_slurm
from tests.launch.slurm.sessions import REGION, hyperpod, without_slurm
from trainway.launch.registry.logins import login_on, remember_login
from trainway.launch.slurm.cluster import cluster_of, on_cluster
from trainway.launch.slurm.forward import forward
from trainway.launch.slurm.session import _nodes, commands, login_for, session
from trainway.launch.target.protocol import Phase, State
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff

WHAT = "the cluster cannot be asked"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = without_slurm(tmp_path, user="ada")
    monkeypatch.setenv("PATH", str(programs))
    return programs


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of this person without any login name."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration"


@pytest.fixture
def aws() -> Iterator[None]:
    from moto import mock_aws

    with mock_aws():
        yield


def cluster(name: str, arn: str) -> dict[str, str]:
    """Return a handle of a run of ada, who is this person."""
    remember_login(arn, "ada")
    return {"cluster": name, "arn": arn, "region": REGION, "user": "ada"}


@pytest.mark.usefixtures("aws")
def test_a_line_runs_there_as_it_would_here() -> None:
    there = cluster("lines", hyperpod("lines", "controller", "login", "train"))
    odd = 'it\'s "odd" $HOME `date` \\ é\n'
    said = on_cluster(f"cat <<'EOF'\n{odd}EOF\necho trainway-answer 1 >&2", there, what=WHAT)
    assert said == odd
    # Longer than a terminal's buffer.
    assert on_cluster("printf '%0200000d' 7", there, what=WHAT) == f"{7:0200000d}"


@pytest.mark.usefixtures("aws")
def test_a_line_that_fails_there_is_explained_in_its_own_words() -> None:
    there = cluster("failing", hyperpod("failing", "controller", "login"))
    with pytest.raises(UsageError, match=f"{WHAT}\n    why: sbatch: error: no such partition"):
        on_cluster("echo begins; echo 'sbatch: error: no such partition' >&2; exit 3", there, what=WHAT)


@pytest.mark.usefixtures("aws")
def test_a_session_that_says_nothing_is_an_error(machine: Path) -> None:
    there = cluster("silent", hyperpod("silent", "login"))
    (machine / "aws").write_text("#!/bin/sh\necho 'Cannot perform start session: EOF'\n")
    with pytest.raises(UsageError, match="gave no answer: Cannot perform start session: EOF"):
        on_cluster("sbatch", there, what=WHAT)


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("groups", "node"), [(("controller", "login", "train"), "login"), (("controller", "train"), "controller")]
)
def test_the_request_is_one_that_systems_manager_takes(groups: tuple[str, ...], node: str) -> None:
    arn = hyperpod(f"with-{node}", *groups)
    command = session(
        cluster(f"with-{node}", arn), "AWS-StartNonInteractiveCommand", commands("bash -c true"), what=WHAT
    )
    assert command[:3] == ("aws", "ssm", "start-session") and command[-2] == "--parameters"
    options = dict(each.removeprefix("--").split("=", 1) for each in command[3:-2])
    assert options["target"] == f"sagemaker-cluster:{arn.rpartition('/')[2]}_{node}-{node}-0"
    assert options["region"] == REGION
    shape = botocore.session.get_session().get_service_model("ssm").operation_model("StartSession").input_shape
    request = {"Target": options["target"], "DocumentName": options["document-name"]}
    assert shape is not None
    validate_parameters({**request, "Parameters": json.loads(command[-1])}, shape)


@pytest.mark.usefixtures("aws")
def test_a_port_is_forwarded_by_a_session_on_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session starts on the compute node, because no other host reaches a port of the run."""
    arn = hyperpod("ports", "login", "train", "more")
    there = {**cluster("ports", arn), "job": "7", "directory": "/fsx/runs/first"}
    names = ("ip-10-0-16-8", "ip-10-0-16-9")
    monkeypatch.setattr("trainway.launch.slurm.watch.state", lambda _: State(Phase.RUNNING, nodes=names))
    # moto knows no host names.
    listed = _nodes("ports", REGION)
    shape = botocore.session.get_session().get_service_model("sagemaker").shape_for("ClusterNodeSummary")
    assert isinstance(shape, StructureShape) and "PrivateDnsHostname" in shape.members
    assert listed[2]["InstanceGroupName"] == "more"
    for node, host in zip(listed, ("ip-10-0-16-7", *names), strict=True):
        monkeypatch.setitem(node, "PrivateDnsHostname", f"{host}.{REGION}.compute.internal")
    command = forward(there, 1, 6006, 6007)
    assert "--document-name=AWS-StartPortForwardingSession" in command
    identifier = arn.rpartition("/")[2]
    assert f"--target=sagemaker-cluster:{identifier}_more-{listed[2]['InstanceId']}" in command
    parameters = json.loads(command[-1])
    assert parameters == {"portNumber": ["6006"], "localPortNumber": ["6007"]}
    request = botocore.session.get_session().get_service_model("ssm").operation_model("StartSession").input_shape
    assert request is not None
    validate_parameters({"Target": "mi-1", "Parameters": parameters}, request)
    listed[2]["InstanceStatus"] = {"Status": "Failure"}
    with pytest.raises(UsageError, match="no running node of the cluster has the host name ip-10-0-16-9"):
        forward(there, 1, 6006, 6007)


@pytest.mark.usefixtures("aws")
def test_a_cluster_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"the nodes of nowhere in us-west-2 cannot be listed[\s\S]*ListClusterNodes"):
        on_cluster("sinfo", cluster("nowhere", "arn:aws:sagemaker:us-west-2:123456789012:cluster/x"), what=WHAT)


@pytest.mark.parametrize("program", ["aws", "session-manager-plugin"])
def test_what_is_missing_on_this_machine_is_named(program: str, machine: Path) -> None:
    (machine / program).unlink()
    with pytest.raises(UsageError, match=f"{WHAT}\n    why: neither sbatch nor {program} is installed on this machine"):
        on_cluster("sinfo", cluster("any", "arn:aws:sagemaker:us-west-2:123456789012:cluster/x"), what=WHAT)


def test_who_runs_jobs_must_be_named_where_only_teams_do(hand_off: HandOff) -> None:
    with pytest.raises(UsageError, match="only the users of a team run jobs"):
        cluster_of(on_slurm(hand_off))
    alone = on_slurm(hand_off).model_copy(update={"teams": ()})
    assert cluster_of(alone)["user"] == "ubuntu"
    assert cluster_of(on_slurm(hand_off), "ada")["user"] == "ada"


@pytest.mark.usefixtures("aws")
def test_a_session_has_the_login_name_of_whoever_asks_and_not_that_of_the_record(hand_off: HandOff) -> None:
    arn = hyperpod("others", "login")
    theirs = {"cluster": "others", "arn": arn, "region": REGION, "user": "grace"}
    with pytest.raises(UsageError, match="your login name on others is not known, and the run is of the user grace"):
        on_cluster("true", theirs, what=WHAT)
    there = on_slurm(hand_off)
    there = there.model_copy(update={"cluster": there.cluster.model_copy(update={"arn": arn})})
    assert cluster_of(there, "ada")["user"] == "ada"
    # It is kept, for launches without --user, and for runs of everybody.
    assert cluster_of(there)["user"] == "ada"
    assert login_for(theirs, what=WHAT) == login_for({**theirs, "user": "ubuntu"}, what=WHAT) == "ada"


def test_damaged_login_names_are_told(configuration: Path) -> None:
    remember_login("arn:one", "ada")
    remember_login("arn:two", "grace")
    assert (login_on("arn:one"), login_on("arn:two"), login_on("arn:three")) == ("ada", "grace", None)
    for text in ("[]", "{"):
        (configuration / "trainway/logins.json").write_text(text)
        with pytest.raises(UsageError, match=r"logins\.json cannot be read"):
            login_on("arn:one")
    (configuration / "trainway/logins.json").write_text('{"arn:one": "-x; id"}')
    with pytest.raises(UsageError, match="nobody is called"):
        login_on("arn:one")


def test_a_platform_without_slurm_is_refused(hand_off: HandOff) -> None:
    with pytest.raises(UsageError, match=r"its orchestrator is eks, and runs no Slurm"):
        cluster_of(hand_off)
