"""`kubernetes.run_ai`: the control plane of Run:ai that the cluster belongs to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.sections.fields import SECRET_ARN, KmsKey
from trainway.spec.values import Matches, Section

ControlPlaneAddress = Annotated[
    str,
    Matches(
        r"https://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?",
        "it is not the https:// address of a control plane, without a path, a login, or a slash at the end",
        "write it as in https://acme.run.ai",
    ),
]

# A name that begins with a hyphen would be an option of a command.
# https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html (Name, read 2026-11-27)
NameOrArn = Annotated[
    str,
    Matches(
        rf"[A-Za-z0-9/_+=.@][A-Za-z0-9/_+=.@-]{{0,511}}|{SECRET_ARN}",
        "it is neither the name nor the whole ARN of a secret",
        "write it as in run-ai/atlas, or the ARN that `aws secretsmanager describe-secret` prints",
    ),
]

RegistryAddress = Annotated[
    str,
    Matches(
        r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(/[a-z0-9._-]+)*",
        "it is not the address of a registry",
        "write it as in registry.example.com/run-ai, without https://",
    ),
]


class RunAi(Section):
    """The control plane of Run:ai, and the secret by which the deploy installs the cluster and makes the projects."""

    control_plane: ControlPlaneAddress = Field(
        description="Address of the control plane, for example https://acme.run.ai. The cluster stage and the nodes "
        "must reach it."
    )
    secret: NameOrArn = Field(
        description="Name or ARN of the Secrets Manager secret whose value is "
        '{"cluster_id": "…", "client_id": "…", "client_secret": "…", "ngc_api_key": "…"}: the cluster\'s ID in Run:ai, '
        "the credentials of a service account, and a key of NVIDIA NGC. A name is that of a secret in the platform's "
        "Region and account."
    )
    key: KmsKey | None = Field(
        None, description="The KMS key that encrypts the secret. Default: aws/secretsmanager, a key of AWS's own."
    )
    registry: RegistryAddress | None = Field(
        None,
        description="Registry of your own with Run:ai's images, for example registry.example.com/run-ai. Required in a "
        "closed network. Default: NVIDIA's registry nvcr.io.",
    )
