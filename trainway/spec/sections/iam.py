"""`iam`: what all roles have in common, and which there are beside those that the platform needs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.values import Matches, Section


class Iam(Section):
    """What all of the platform's roles have in common, and which of them are made on request."""

    permissions_boundary: (
        Annotated[
            str,
            Matches(
                r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/.+",
                "it is not the ARN of an IAM policy",
                "write it as in arn:aws:iam::111122223333:policy/boundary",
            ),
        ]
        | None
    ) = Field(None, description="ARN of the permissions boundary of every role.")
    persona_roles: bool = Field(
        False,
        description="A role for administrators, one for viewers and one for each team, which those people assume, "
        "instead of letting them into the cluster themselves. On Kubernetes.",
    )
    training_jobs: bool = Field(
        False,
        description="A role for SageMaker training jobs, which run the platform's image on its data and on none of its "
        "nodes: `trainway launch --target sagemaker`.",
    )
