"""`slurm`: the Slurm cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.fields import Matches, Section

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
    secret: Annotated[
        str,
        Matches(
            r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:\S+-[A-Za-z0-9]{6}",
            "it is not the whole ARN of a secret, which ends in a hyphen and six characters",
            "write it as in arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf",
        ),
    ] = Field(description="The Secrets Manager secret with the user and the password, encrypted by a key of AWS's own.")
    port: int = Field(3306, ge=1, le=65535, description="TCP port of the database.")
    name: (
        Annotated[
            str, Matches(r"[A-Za-z0-9$_]{1,64}", "it is not the name of a schema", "use letters, digits, $ and _")
        ]
        | None
    ) = Field(None, description="The schema, one a platform; default: one with the cluster's id in its name.")


class Slurm(Section):
    """The Slurm cluster, for the orchestrator hyperpod-slurm."""

    controller: HeadNode = Field(default_factory=HeadNode, description="Runs slurmctld.")
    login: HeadNode | None = Field(default_factory=HeadNode, description="Where people log in; null for none.")
    accounting_database: AccountingDatabase | None = Field(
        None,
        description="Where accounts and the history of jobs outlive the controller; a cluster keeps it for good. "
        "Default: MariaDB on the controller.",
    )
