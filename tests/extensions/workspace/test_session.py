"""With the real kubectl: a workspace is started once, connected to when it answers, and ended."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launch.kubernetes.platforms import hand_off_of, platform_named
from tests.launch.kubernetes.stand_in_api import Api, serving
from tests.manifests.platforms import CATALOGUE
from trainway.extensions.workspace import (
    Workspace,
    WorkspaceRequest,
    connect,
    define,
    end,
    find,
    owner_of_credentials,
    start,
    state,
)
from trainway.launch.kubernetes.context import eks_arn
from trainway.launch.target.protocol import Phase
from trainway.spec.errors import UsageError

NAME = "workspace-ada"


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    return define(
        hand_off_of(platform_named("kueue")), lambda _: "image", CATALOGUE, WorkspaceRequest("ada", team="research")
    )


@pytest.fixture
def api(tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The platform's cluster, which the kubeconfig knows."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    with serving() as api:
        config = api.kubeconfig(tmp_path / "kubeconfig", eks_arn(workspace.hand_off))
        monkeypatch.setenv("KUBECONFIG", str(config))
        monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "cache"))
        yield api


def begin(api: Api, *, ready: bool) -> str:
    """What the cluster makes of the Job and of its token, which it returns."""
    token: str = api.objects["secrets", NAME].pop("stringData")["token"]
    api.objects["secrets", NAME]["data"] = {"token": base64.b64encode(token.encode()).decode()}
    conditions = [{"type": "Ready", "status": str(ready)}]
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{NAME}-x7k2p", "labels": {"trainway.dev/run": NAME}},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "conditions": conditions},
    }
    api.put("pods", pod)
    return token


def test_it_is_applied_whole_and_its_token_goes_with_it(api: Api, workspace: Workspace) -> None:
    handle = start(workspace, CATALOGUE)
    assert handle == {"context": "mine", "namespace": "research", "name": NAME}
    assert find(workspace.hand_off, "Ada", "research") == handle
    assert set(api.objects) == {("secrets", NAME), ("jobs", NAME)}
    (owner,) = api.objects["secrets", NAME]["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "batch/v1", "kind": "Job", "name": NAME, "uid": f"uid-{NAME}"}
    dry = ["dryRun=All" in each for each in api.asked if each.startswith("PATCH")]
    assert dry == [True, True, False, False, False]


def test_each_has_a_token_of_its_own(api: Api, workspace: Workspace) -> None:
    tokens = set()
    for _ in range(2):
        start(workspace, CATALOGUE)
        tokens.add(api.objects["secrets", NAME]["stringData"]["token"])
        api.objects.clear()
    assert len(tokens) == 2 and all(len(token) >= 32 for token in tokens)


def test_one_that_is_refused_leaves_nothing_behind(api: Api, workspace: Workspace) -> None:
    api.refusals["Job"] = "exceeded quota: guard-rails"
    with pytest.raises(UsageError, match="exceeded quota: guard-rails"):
        start(workspace, CATALOGUE)
    assert not api.objects


def test_there_is_one_a_person(api: Api, workspace: Workspace) -> None:
    start(workspace, CATALOGUE)
    begin(api, ready=True)
    with pytest.raises(UsageError, match="there is one, which is running"):
        start(workspace, CATALOGUE)


def test_it_is_reached_on_loopback_with_its_token(api: Api, workspace: Workspace) -> None:
    handle = start(workspace, CATALOGUE)
    token = begin(api, ready=True)
    assert state(handle).phase is Phase.RUNNING
    connection = connect(handle, 9999)
    assert connection.url == f"http://127.0.0.1:9999/lab?token={token}"
    assert connection.command[-4:] == ("port-forward", "--address=127.0.0.1", f"pod/{NAME}-x7k2p", "9999:8888")
    assert token not in " ".join(connection.command)


def test_until_it_answers_nothing_is_forwarded(api: Api, workspace: Workspace) -> None:
    handle = start(workspace, CATALOGUE)
    with pytest.raises(UsageError, match="it has no pods yet"):
        connect(handle)
    begin(api, ready=False)
    with pytest.raises(UsageError, match="wait until it answers"):
        connect(handle)


@pytest.mark.usefixtures("api")
def test_it_is_ended(workspace: Workspace) -> None:
    handle = start(workspace, CATALOGUE)
    end(handle)
    assert state(handle).phase is Phase.GONE
    with pytest.raises(UsageError, match="start one"):
        connect(handle)
    end(handle)


@pytest.mark.parametrize(
    ("user", "owner"),
    [
        ({"username": "arn:aws:iam::111122223333:user/people/ada"}, "ada"),
        ({"username": "arn:aws:sts::111122223333:assumed-role/Research/ada@example.com"}, "ada@example.com"),
        # The access entry has a user name of its own, which all who assume the role share.
        ({"username": "research", "extra": {"sessionName": ["ada@example.com"]}}, "ada@example.com"),
        ({"username": "arn:aws:iam::111122223333:user/ada", "extra": {"sessionName": [""]}}, "ada"),
    ],
)
def test_its_owner_is_whom_the_cluster_knows(api: Api, workspace: Workspace, user: dict[str, Any], owner: str) -> None:
    api.user = user
    assert owner_of_credentials(workspace.hand_off) == owner


@pytest.mark.parametrize("session", ["botocore-session-1766476800", "EKSGetTokenAuth", "i-0123456789abcdef0"])
def test_a_session_that_names_no_person_owns_no_workspace(api: Api, workspace: Workspace, session: str) -> None:
    api.user = {"username": f"arn:aws:sts::111122223333:assumed-role/Research/{session}"}
    with pytest.raises(UsageError, match=f"(?s){session}.* name the owner with --owner"):
        owner_of_credentials(workspace.hand_off)
