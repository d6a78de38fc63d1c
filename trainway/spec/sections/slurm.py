"""`slurm`: the Slurm cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.sections.fields import Secret
from trainway.spec.sections.slurm_directory import Directory
from trainway.spec.sections.slurm_user import SlurmGroup, SlurmUser
from trainway.spec.values import Matches, Section

# The instance groups of the two.
CONTROLLER_GROUP, LOGIN_GROUP = "controller", "login"


class HeadNode(Section):
    """A node of the Slurm cluster that runs no jobs."""

    instance_type: str = Field("m7i.2xlarge", description="CPU instance type from the catalogue.")


class AccountingDatabase(Section):
    """A MySQL-compatible database of your own for Slurm's accounts and the history of jobs.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterAccountingDatabase.html (read 2026-11-21)
    """

    endpoint: Annotated[
        str,
        Matches(
            # The reader endpoint of an Aurora cluster is read-only.
            r"(?!localhost$)(?!127\.)(?!.*\.cluster-ro-)(?=.{1,255}$)([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*",
            "it is not the name of a host that can be written to",
            "write it as in slurm.cluster-abc.us-west-2.rds.amazonaws.com; the port has a key of its own",
        ),
    ] = Field(
        description="Host name of the database. The security group of the database must allow connections from the "
        "nodes."
    )
    secret: Secret = Field(
        description="ARN of the Secrets Manager secret with the user name and the password. It must be encrypted by "
        "the AWS managed key."
    )
    port: int = Field(3306, ge=1, le=65535, description="TCP port of the database.")
    name: (
        Annotated[
            str, Matches(r"[A-Za-z0-9$_]{1,64}", "it is not the name of a schema", "use letters, digits, $ and _")
        ]
        | None
    ) = Field(
        None,
        description="Name of the database schema. Platforms cannot share a schema. Default: a name with the "
        "cluster's ID.",
    )


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
        description="Database that keeps accounts and the history of jobs when the controller is replaced. An "
        "existing cluster cannot change it. Default: MariaDB on the controller.",
    )
    containers: bool | None = Field(
        None,
        description="Install enroot and pyxis on every node, for jobs in a container image. true fails nodes on "
        "which the installation fails. false does not install them. Default: install them, and keep nodes without "
        "them for other jobs.",
    )
    users: tuple[SlurmUser, ...] = Field(
        (),
        description="Users with an account on every node. A user who is removed from the list cannot log in any more.",
    )
    groups: tuple[SlurmGroup, ...] = Field((), description="Unix groups of the users.")
    directory: Directory | None = Field(None, description="LDAP directory with more users. null: none.")
    health_checks: bool = Field(
        True,
        description="Check each node before each job and every five minutes. Drain nodes that fail, and remove the "
        "processes and files that a job leaves behind.",
    )
    exporters: bool = Field(True, description="Export metrics of nodes, GPUs, EFA, and Slurm for a Prometheus server.")
    observability: bool | None = Field(
        None,
        description="Collect metrics, whatever `observability.metrics` says. Requires `exporters`. Default: as "
        "`observability.metrics` says.",
    )
    login_needs_job: bool = Field(
        True,
        description="Allow SSH to a compute node only to users with a job on it, and to users with sudo rights. false "
        "allows SSH to every user.",
    )
    job_walls: bool | None = Field(
        None,
        description="Let only the nodes and the user of a job connect to the ports of its programs, by nftables. false "
        "lets every host of the VPC connect. true fails nodes that have no nftables. Default: nodes with nftables have "
        "walls, and the log of any other node has a warning.",
    )
    private_tmp: bool = Field(
        True,
        description="Give each job /tmp and /dev/shm of its own on each node, which Slurm deletes with the job. false "
        "shares them between all users of a node.",
    )
    settings: dict[SettingKey, SettingValue] = Field(
        default_factory=dict, description="Parameters of slurm.conf, by name. They override HyperPod's."
    )
