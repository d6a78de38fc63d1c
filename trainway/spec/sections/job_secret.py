"""`secrets`: secrets of AWS Secrets Manager that jobs can read."""

from __future__ import annotations

from pydantic import Field

from trainway.spec.sections.fields import KmsKey, Name, Secret
from trainway.spec.values import Section


class JobSecret(Section):
    """A secret of AWS Secrets Manager that jobs can read with the role of their nodes or pods."""

    secret: Secret = Field(
        description="ARN of the secret, for example arn:aws:secretsmanager:us-west-2:111122223333:secret:hugging-face-"
        "AbCdEf. Job files name it as hugging-face."
    )
    key: KmsKey | None = Field(
        None, description="The KMS key that encrypts the secret. Default: aws/secretsmanager, a key of AWS's own."
    )
    teams: tuple[Name, ...] = Field(
        (),
        description="Teams whose jobs can read the secret, on Kubernetes. Default: all jobs of the platform.",
    )

    @property
    def name(self) -> str:
        """The name of the secret: the last part of its ARN without the hyphen and six characters at its end."""
        return self.secret.rpartition(":")[2][:-7]
