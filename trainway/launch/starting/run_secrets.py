"""Whether the secrets of a job exist, and whether its nodes may read them, as far as that is known before a launch."""

from __future__ import annotations

from trainway.launch.program.program import Program
from trainway.spec.errors import usage_error
from trainway.spec.platform import Platform


def check_secrets(program: Program, platform: Platform, *, ask: bool = True) -> None:
    """Raise UsageError for a secret that the platform file does not list, or that Secrets Manager does not have.

    Without `ask`, Secrets Manager is not asked.

    A person without the right secretsmanager:DescribeSecret learns of an absent secret when the run starts.
    """
    known = {each.name: each for each in platform.secrets} | {each.secret: each for each in platform.secrets}
    for variable, text in program.secrets.items():
        name = text.partition("#")[0]
        key = f"run.secrets.{variable}" if program.started_by else "trackers"
        what = f"{key}: the secret {name} cannot be read by a job on {platform.name}"
        if name not in known:
            has = ", ".join(each.name for each in platform.secrets) or "none"
            fix = "add its ARN to `secrets` of the platform file, and deploy"
            raise usage_error(what, why=f"the platform file lists {has}", fix=fix)
        if (teams := known[name].teams) and program.team not in teams:
            why = f"it is for jobs of {', '.join(teams)}, and this one is of {program.team or 'no team'}"
            raise usage_error(what, why=why, fix="set `team` of the job file, or change `secrets` of the platform file")
        if not ask:
            continue
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            found = boto3.client("secretsmanager", region_name=platform.region).describe_secret(SecretId=name)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                fix = (
                    f"create it: `aws secretsmanager create-secret --name {known[name].name} --secret-string file://…`"
                )
                raise usage_error(what, why=f"{platform.region} has no secret of this name", fix=fix) from None
        except BotoCoreError:
            continue
        else:
            if "DeletedDate" in found:
                fix = f"`aws secretsmanager restore-secret --secret-id {name}` restores it"
                raise usage_error(what, why="it is scheduled for deletion", fix=fix)
