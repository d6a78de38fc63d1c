"""`slurm`: the Slurm cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.sections.slurm_directory import Directory, Secret
from trainway.spec.sections.slurm_user import SlurmGroup, SlurmUser
from trainway.spec.values import Matches, Section

# The instance groups of the two.
CONTROLLER_GROUP, LOGIN_GROUP = "controller", "login"


class HeadNode(Section):
    """A node of the Slurm cluster that runs no jobs."""

    instance_type: str = Field("m7i.2xlarge", description="A CPU instance type of the catalogue.")


class AccountingDatabase(Section):
    """A MySQL-compatible database of your own for Slurm's accounts and the history of jobs.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterAccountingDatabase.html (read 2026-11-21)
    """

    endpoint: Annotated[
        str,
        Matches(
            r"(?=.{1,255}$)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*",
            "it is not the name of a host",
            "write it as in slurm.cluster-abc.us-west-2.rds.amazonaws.com; the port has a key of its own",
        ),
    ] = Field(description="The database's host name, which the controller reaches; its security group lets nodes in.")
    secret: Secret = Field(
        description="The Secrets Manager secret with the user and the password, encrypted by a key of AWS's own."
    )
    port: int = Field(3306, ge=1, le=65535, description="TCP port of the database.")
    name: (
        Annotated[
            str, Matches(r"[A-Za-z0-9$_]{1,64}", "it is not the name of a schema", "use letters, digits, $ and _")
        ]
        | None
    ) = Field(None, description="The schema, one a platform; default: one with the cluster's id in its name.")


SettingKey = Annotated[str, Matches(r"[A-Za-z0-9]+", "it is not a key of slurm.conf", "write it as in MessageTimeout")]
SettingValue = Annotated[
    str, Matches(r"[!-~]([ -~]*[!-~])?", "it is not a value of slurm.conf", "write one line, without spaces around it")
]


class Slurm(Section):
    """The Slurm cluster, for the orchestrator hyperpod-slurm."""

    controller: HeadNode = Field(default_factory=HeadNode, description="The node that runs slurmctld.")
    login: HeadNode | None = Field(default_factory=HeadNode, description="The login node. null: none.")
    accounting_database: AccountingDatabase | None = Field(
        None,
        description="Where accounts and the history of jobs outlive the controller; a cluster keeps it for good. "
        "Default: MariaDB on the controller.",
    )
    containers: bool | None = Field(
        None,
        description="Install enroot and pyxis on every node, for jobs in an image. Default: install them, and let a "
        "node that cannot have them run other jobs. `true`: such a node fails. `false`: do not install them.",
    )
    users: tuple[SlurmUser, ...] = Field(
        (), description="Who has an account on every node; who is taken out of the list is locked out."
    )
    groups: tuple[SlurmGroup, ...] = Field((), description="Unix groups of the users.")
    directory: Directory | None = Field(None, description="LDAP directory with more users. null: none.")
    health_checks: bool = Field(
        True,
        description="A node that is not fit for a job is drained: looked at before each job, and every five minutes; "
        "what a job leaves behind is taken away.",
    )
    exporters: bool = Field(
        True, description="Metrics of every node, its GPUs and EFA, and of Slurm, for a Prometheus that scrapes them."
    )
    login_needs_job: bool = Field(
        False, description="SSH lets into a compute node only who has a job there, and who may use sudo."
    )
    settings: dict[SettingKey, SettingValue] = Field(
        default_factory=dict, description="Parameters of slurm.conf. They override HyperPod's."
    )
