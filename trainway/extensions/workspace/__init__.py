"""Workspaces: JupyterLab on a GPU, a few of them or a fraction of one, in a team's quota on Kubernetes."""

from trainway.extensions.workspace.definition import Workspace, WorkspaceRequest, define
from trainway.extensions.workspace.documents import render_workspace
from trainway.extensions.workspace.owner import owner_of_credentials
from trainway.extensions.workspace.session import Connection, connect, end, find, start, state

__all__ = [
    "Connection",
    "Workspace",
    "WorkspaceRequest",
    "connect",
    "define",
    "end",
    "find",
    "owner_of_credentials",
    "render_workspace",
    "start",
    "state",
]
