"""Comparing the version of Trainway that deployed a platform with this one, before a deploy."""

from __future__ import annotations

from trainway import __version__
from trainway.launch.platform.hand_off import NotDeployedError, read_deployer
from trainway.spec.deployment.upgrade import upgrade_refusal
from trainway.spec.errors import usage_error
from trainway.spec.facts.releases import releases
from trainway.spec.platform import Platform


def require_upgradable(platform: Platform) -> None:
    """Ask AWS which version deployed the platform, and raise UsageError if this version must not deploy over it.

    A platform that is not deployed passes. Raises UsageError, too, if AWS cannot be asked.
    """
    try:
        deployer = read_deployer(platform)
    except NotDeployedError:
        return
    refusal = upgrade_refusal(deployer.version if deployer else None, __version__, releases())
    if refusal:
        what = f"Trainway {__version__} cannot deploy the platform {platform.name} in {platform.region}"
        raise usage_error(what, why=refusal.why, fix=refusal.fix)
