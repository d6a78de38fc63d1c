"""`iam`: settings of all roles, and the optional roles."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.values import Matches, Section


class Iam(Section):
    """Settings of all roles of the platform, and the optional roles."""

    permissions_boundary: (
        Annotated[
            str,
            Matches(
                r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[^*?\s]+",
                "it is not the ARN of an IAM policy",
                "write it as in arn:aws:iam::111122223333:policy/boundary",
            ),
        ]
        | None
    ) = Field(None, description="ARN of the permissions boundary of every role.")
    persona_roles: bool = Field(
        False,
        description="On Kubernetes. Create a role for administrators, one for viewers, and one for each team. The "
        "people of the file assume these roles and have no access to the cluster by themselves.",
    )
    training_jobs: bool = Field(
        False,
        description="Create a role for SageMaker training jobs, for `trainway launch --target sagemaker`. These jobs "
        "run the platform's image on the platform's data, on instances outside the cluster.",
    )
