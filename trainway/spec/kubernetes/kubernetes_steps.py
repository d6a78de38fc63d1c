"""Compare a platform's versions with those that AWS publishes, and list the steps of an upgrade."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

from trainway.spec.capacity.capacity_times import capacity_times
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.kubernetes_versions import kubernetes_versions
from trainway.spec.kubernetes.addons import BEFORE_NODES, EXPORTERS, ON_NODES, addons_in_cluster
from trainway.spec.kubernetes.ami_releases import age, groups_with_releases, minor_of, minors_behind, next_minor
from trainway.spec.lock import Lock
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import minute

# The add-ons that the control plane's stack creates. HyperPod's own add-ons follow HyperPod.
ADDONS = (*BEFORE_NODES, *ON_NODES, *EXPORTERS)


@dataclass(frozen=True)
class SupportDates:
    """The first days without standard and without extended support of a Kubernetes version, as EKS reports them."""

    standard_until: date | None
    extended_until: date | None


@dataclass(frozen=True)
class PublishedVersions:
    """The versions that AWS publishes in a Region.

    `versions` are the Kubernetes minor versions of EKS. `releases` has the newest release of EKS's AMI by node group,
    and `addons` the default version of each add-on, both for the control plane's minor version.
    """

    versions: Mapping[str, SupportDates]
    releases: Mapping[str, str]
    addons: Mapping[str, str]


@dataclass(frozen=True)
class Pin:
    """A version of the lock, and the newest one. `held` states why the newer one is not used now."""

    name: str
    pinned: str | None
    newest: str | None
    held: str | None = None


@dataclass(frozen=True)
class UpgradeStep:
    """A step of an upgrade: the action, and its effect."""

    title: str
    do: str
    happens: str


@dataclass(frozen=True)
class UpgradePlan:
    """The newer versions that a platform can have.

    `following` is the next minor version, if the platform can have it.
    """

    version: str
    support: SupportDates | None
    following: str | None
    nodes: tuple[Pin, ...]
    addons: tuple[Pin, ...]
    steps: tuple[UpgradeStep, ...] = ()

    @property
    def held(self) -> dict[str, str]:
        """Why node groups keep their AMI release, by the name of the group."""
        return {pin.name: pin.held for pin in self.nodes if pin.held}


def deployed_version(platform: Platform) -> str:
    """Return the control plane's minor version: that of the last deploy, or of the file before the first deploy.

    The file has the version of an adopted cluster.
    """
    if platform.adopted_cluster:
        return platform.adopted_cluster.version
    return platform.lock.kubernetes_version or platform.kubernetes_or_default.version


def upgrade_plan(platform: Platform, catalogue: Catalogue, published: PublishedVersions, now: datetime) -> UpgradePlan:
    """Compare a platform with the versions that AWS publishes at a time."""
    version, lock = deployed_version(platform), platform.lock
    following = next_minor(version)
    supported = kubernetes_versions().of(hyperpod=platform.orchestrator.is_hyperpod)
    can_rise = following in published.versions and following in supported
    plan = UpgradePlan(
        version=version,
        support=published.versions.get(version),
        following=following if can_rise else None,
        nodes=tuple(
            Pin(name, lock.ami_releases.get(name), published.releases.get(name), _held(platform, name, now))
            for name, _ in groups_with_releases(platform, catalogue)
        ),
        addons=tuple(
            Pin(name, lock.addon_versions.get(name), published.addons.get(name))
            for name in addons_in_cluster(platform)
            if name in ADDONS
        ),
    )
    return replace(plan, steps=(*_unfinished(plan), *(_steps(following, platform) if can_rise else ())))


def pinned(lock: Lock, plan: UpgradePlan, *, groups: frozenset[str], addons: bool) -> Lock:
    """Return the lock with the newest releases of these groups, except held ones, and optionally the newest add-ons."""
    releases = {pin.name: pin.newest for pin in plan.nodes if pin.newest and pin.name in groups and _rises(pin)}
    versions = {pin.name: pin.newest for pin in plan.addons if pin.newest} if addons else {}
    return lock.model_copy(
        update={
            "ami_releases": dict(sorted((lock.ami_releases | releases).items())),
            "addon_versions": dict(sorted((lock.addon_versions | versions).items())),
        }
    )


def _rises(pin: Pin) -> bool:
    return not pin.held and (pin.pinned is None or age(str(pin.newest)) > age(pin.pinned))


def _held(platform: Platform, name: str, now: datetime) -> str | None:
    """Return why the nodes of a group keep their release, or None.

    EKS upgrades a group with a Capacity Block only while it has no nodes.
    https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html (read 2026-11-22)
    """
    group = next((each for each in platform.node_groups if each.name == name), None)
    times = capacity_times(group) if group else None
    if times and times.start <= now < times.end:
        return f"its Capacity Block runs until {minute(times.end)}, and EKS upgrades it without nodes only"
    return None


def _unfinished(plan: UpgradePlan) -> Iterator[UpgradeStep]:
    """Yield the step that the last upgrade left open, if nodes are still older than the control plane."""
    behind = [pin.name for pin in plan.nodes if pin.pinned and minors_behind(minor_of(pin.pinned), plan.version)]
    if behind:
        happens = f"The nodes of {', '.join(behind)} get the control plane's version, {plan.version}."
        yield UpgradeStep("the last upgrade", "`trainway upgrade`, then deploy", happens)


def _steps(following: str, platform: Platform) -> tuple[UpgradeStep, ...]:
    """Return the steps to the next minor version. The owner of an adopted cluster upgrades the control plane."""
    rise = f'set `kubernetes.version: "{following}"` in the platform file, deploy, then `trainway lock --deployed`'
    if adopted := platform.adopted_cluster:
        rise = (
            f"upgrade {adopted.name} to {following} with the tool that created it, then `trainway adopt {adopted.name}`"
        )
    return (
        UpgradeStep(
            "what EKS found",
            "`aws eks list-insights --cluster-name NAME --filter categories=UPGRADE_READINESS`",
            "Nothing changes. EKS refuses the next step if a finding is an error.",
        ),
        UpgradeStep(
            "control plane",
            rise,
            "EKS replaces the API servers. Jobs keep running. Add-ons and nodes keep their versions.",
        ),
        UpgradeStep(
            "add-ons",
            "`trainway upgrade --addons`, then deploy",
            f"Each add-on gets its default version for {following}. Its pods restart, some of them on every node.",
        ),
        UpgradeStep(
            "nodes",
            "`trainway upgrade`, or `trainway upgrade --group NAME` for one group after another, then deploy",
            "EKS replaces the nodes of these groups, one at a time. Their jobs get SIGTERM, save, and end.",
        ),
    )
