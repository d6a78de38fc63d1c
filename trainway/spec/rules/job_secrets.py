"""Rules of `secrets`, which jobs read."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule


@rule
def job_secrets_are_in_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A secret that jobs read is in the platform's Region."""
    for number, each in enumerate(platform.secrets):
        region = each.secret.split(":")[3]
        if region != platform.region:
            reason = f"the secret is in {region}, and jobs read it in {platform.region}"
            remedy = f"name a secret of {platform.region}; a secret can be replicated there"
            yield ("secrets", number, "secret"), reason, remedy


@rule
def job_secrets_have_different_names(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Job files name a secret by its name, which no other secret of the file has."""
    names: set[str] = set()
    for number, each in enumerate(platform.secrets):
        if each.name in names:
            reason = f"another secret of the file has the name {each.name}, by which job files know it"
            yield ("secrets", number, "secret"), reason, "remove one of the two"
        names.add(each.name)


@rule
def job_secrets_are_of_teams(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The teams of a secret are teams of the file, on a platform whose jobs have the role of their team."""
    teams = {team.name for team in platform.teams}
    for number, each in enumerate(platform.secrets):
        if each.teams and not (platform.orchestrator.is_kubernetes or platform.storage.bucket.team_prefixes):
            reason = "on a Slurm cluster all jobs have the role of the nodes, and so the same secrets"
            yield ("secrets", number, "teams"), reason, "remove it, or set storage.bucket.team_prefixes to true"
            continue
        for position, name in enumerate(each.teams):
            if name not in teams:
                known = ", ".join(sorted(teams)) or "none"
                yield ("secrets", number, "teams", position), f"there is no team {name}", f"the file has {known}"
