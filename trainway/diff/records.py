"""Read the platform file and the lock of the last deploy from SSM parameters."""

from __future__ import annotations

from trainway.diff.account import AwsAccount
from trainway.spec import deployed_file, recorded_lock
from trainway.spec.deployed_file import DeployedFile
from trainway.spec.errors import usage_error
from trainway.spec.lock import Lock


def file_of_last_deploy(account: AwsAccount, platform: str) -> DeployedFile | None:
    """Return the platform file of the last deploy, or None if there is no record that can be read."""
    text = _parameter(account, deployed_file.deployed_file_name(platform))
    return deployed_file.read(text) if text is not None else None


def lock_of_last_deploy(account: AwsAccount, platform: str) -> Lock | None:
    """Return the lock of the last deploy, or None if there is no record that can be read."""
    text = _parameter(account, recorded_lock.recorded_lock_name(platform))
    return recorded_lock.read(text) if text is not None else None


def lost_lock(platform: str, region: str) -> Lock:
    """Return the lock of the platform that is deployed to the account of this shell.

    Raises UsageError without credentials, or if there is no record that can be read.
    """
    account = AwsAccount(region)
    found = lock_of_last_deploy(account, platform)
    if found is None:
        name = recorded_lock.recorded_lock_name(platform)
        raise usage_error(
            f"the lock of {platform} cannot be written from what is deployed",
            why=f"account {account.number} has no SSM parameter {name} in {region} that you may read and that this "
            "version of Trainway wrote",
            fix="sign in to the account of the platform, or restore platform.lock.yaml from Git; docs/changing.md says "
            "how to write it by hand",
        )
    return found


def _parameter(account: AwsAccount, name: str) -> str | None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return str(account.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
    except (BotoCoreError, ClientError):
        return None
