"""Rules about the account: names, tags, ARNs, budgets, and secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.partition import partition_of
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, path_of_image, published_rule, rule
from trainway.spec.sections.capacity import TrainingPlan

# What no name of a document begins with.
# https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_CreateDocument.html, Name (read 2026-11-25)
OF_SYSTEMS_MANAGER = ("aws", "amazon", "amzn")


@rule
def the_name_can_begin_a_runbook(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The platform's name begins the names of its runbooks, and Systems Manager keeps some beginnings for AWS."""
    taken = next((each for each in OF_SYSTEMS_MANAGER if platform.name.startswith(each)), None)
    if taken:
        reason = f"the platform's runbooks have its name, and Systems Manager keeps names that begin with {taken}"
        yield ("name",), reason, "let the name begin with something else"


# https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html has the limits of most
# services, and https://docs.aws.amazon.com/sdkfornet/v3/apidocs/items/ECS/TTag.html states them in the same words (the
# latter read 2026-11-22).
# Of the 50 tags of a resource. The rest is for the platform's own, Kubernetes', and those of a project.
MOST_TAGS = 40
KEY_LENGTH, VALUE_LENGTH = 128, 256
CHARACTERS = re.compile(r"[\w\s+\-=.:/@]*")
# Names in consoles, the platform's own tags, and those by which Kubernetes and EKS find what is theirs.
RESERVED = re.compile(r"name|trainway.*|eks:.*|(.*\.)?k8s\.(io|aws)/.*|(.*\.)?kubernetes\.io/.*", re.IGNORECASE)


@rule
def tags_are_few(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Every resource has room for the tags of the file beside those of the platform."""
    if len(platform.tags) > MOST_TAGS:
        reason = f"these are {len(platform.tags)} tags, and a resource takes 50 with those of the platform itself"
        yield ("tags",), reason, f"keep {MOST_TAGS} or fewer"


@rule
def tags_are_what_every_service_takes(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Keys and values have the lengths and characters that all AWS services accept, and no prefix of AWS's own."""
    for name, value in platform.tags.items():
        key: KeyPath = ("tags", name)
        if not 1 <= len(name) <= KEY_LENGTH:
            yield key, f"the tag's name has {len(name)} characters", f"write 1 to {KEY_LENGTH} characters"
        if len(value) > VALUE_LENGTH:
            yield key, f"the tag's value has {len(value)} characters", f"write {VALUE_LENGTH} characters or fewer"
        if not (CHARACTERS.fullmatch(name) and CHARACTERS.fullmatch(value)):
            remedy = "write letters, digits, spaces, and + - = . _ : / @"
            yield key, "the tag has a character that not every AWS service takes", remedy
        if any(text.lower().startswith("aws:") for text in (name, value)):
            yield key, "AWS keeps the prefix aws: for itself", "write another prefix"


@rule
def tags_mean_one_thing(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No tag is one by which the platform, EKS, or Kubernetes finds something, and no two differ in case alone.

    IAM takes two such keys for one: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html
    """
    seen: dict[str, str] = {}
    for name in platform.tags:
        if RESERVED.fullmatch(name):
            yield (
                ("tags", name),
                "the platform or Kubernetes gives this tag a meaning of its own",
                "choose another name",
            )
        if other := seen.get(name.lower()):
            yield ("tags", name), f"it differs from {other} in case alone, and IAM takes the two for one", "keep one"
        seen[name.lower()] = name


# The sections whose KMS keys encrypt something of the platform. Another key decrypts a secret, which can be elsewhere.
_ENCRYPTED: Final = ("hyperpod", "storage")


@rule
def arns_are_of_the_partition(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Every ARN is of the partition of the platform's Region.

    Partitions such as those of China and of GovCloud know nothing of each other.
    """
    wanted = partition_of(platform.region)
    for key, arn in _arns(platform):
        partition = arn.split(":")[1]
        if partition != wanted:
            reason = f"it is of the partition {partition}, and {platform.region} is in {wanted}"
            yield key, reason, f"write the ARN of one of an account there, which begins with arn:{wanted}:"


@rule
def keys_clusters_and_plans_are_of_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A KMS key of files or volumes, an EKS cluster, and a training plan are of the platform's Region."""
    for key, arn in _arns(platform):
        _, partition, service, region, _, resource = arn.split(":", 5)
        encrypts = service == "kms" and key[0] in _ENCRYPTED
        is_of_region = encrypts or service == "eks" or resource.startswith("training-plan/")
        if is_of_region and region != platform.region and partition == partition_of(platform.region):
            reason = f"it is in {region}, and the platform in {platform.region}"
            yield key, reason, f"write the ARN of one in {platform.region}"


@rule
def what_only_its_account_can_use_is_of_the_account(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A boundary, a secret without a key, and a bucket of an account's namespace are of the platform's account.

    The account is that of a training plan or of the existing cluster, which no other account can use.
    https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_examples_cross.html
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/gpbucketnamespaces.html (both read 2026-11-30)
    """
    account = _account(platform)
    boundary = platform.iam.permissions_boundary
    if account and boundary and boundary.split(":")[4] not in (account, "aws"):
        reason = f"the platform is in account {account}, and a boundary is a policy of the role's own account"
        yield ("iam", "permissions_boundary"), reason, f"write the ARN of a policy of {account}"
    for key, secret, has_key in _secrets(platform):
        if account and secret.split(":")[4] != account and not has_key:
            reason = f"the platform is in account {account}, and AWS's own key lets no other account read a secret"
            yield key, reason, f"write a secret of {account}, or the key that encrypts this one"
    name = platform.storage.bucket.name or ""
    if found := re.fullmatch(r".+-(\d{12})-([a-z0-9-]+)-an", name):
        wanted = (account or found[1], platform.region)
        if found.groups() != wanted:
            reason = f"names that end like this are of account {found[1]} and {found[2]}"
            yield ("storage", "bucket", "name"), reason, f"write one that ends in -{wanted[0]}-{wanted[1]}-an"


@rule
def a_key_is_where_its_secret_is(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A secret is encrypted by a key of its own Region."""
    for index, secret in enumerate(platform.secrets):
        if secret.key and secret.key.split(":")[3] != secret.secret.split(":")[3]:
            reason = f"it is in {secret.key.split(':')[3]}, and the secret in {secret.secret.split(':')[3]}"
            yield ("secrets", index, "key"), reason, "write the key that encrypts the secret"


@rule
def a_registry_is_of_the_partition(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Hosts of ECR in China end in amazonaws.com.cn, and no others do."""
    for name in platform.image_names:
        uri = platform.of_image(name).image.uri or ""
        found = re.match(r"\d{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?/", uri)
        if found and found[1].startswith("cn-") != bool(found[2]):
            reason = f"ECR has no host of this name in {found[1]}"
            ending = "amazonaws.com.cn" if found[1].startswith("cn-") else "amazonaws.com"
            yield path_of_image(name, ("image", "uri")), reason, f"end the host in {ending}"


def _account(platform: Platform) -> str | None:
    """Return the account that the platform must be in, or None if the file does not say."""
    if platform.adopted_cluster:
        return platform.adopted_cluster.arn.split(":")[4]
    plans = (group.capacity for group in platform.node_groups)
    return next((each.training_plan.split(":")[4] for each in plans if isinstance(each, TrainingPlan)), None)


def _secrets(platform: Platform) -> Iterator[tuple[KeyPath, str, bool]]:
    """Yield each secret, with whether another key than AWS's own encrypts it."""
    for index, secret in enumerate(platform.secrets):
        yield ("secrets", index, "secret"), secret.secret, secret.key is not None
    if database := platform.slurm_or_default.accounting_database:
        yield ("slurm", "accounting_database", "secret"), database.secret, False


def _arns(value: Any, key: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield each ARN of the file, and its key."""
    if isinstance(value, str):
        if value.startswith("arn:") and value.count(":") >= 5:
            yield key, value
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from _arns(getattr(value, name), (*key, field.alias or name))
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _arns(each, (*key, name))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _arns(each, (*key, index))


@rule
def a_budget_counts_a_tag_of_the_platform(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A budget counts the costs of one of `tags`. Without a tag it would count those of the whole account."""
    budget = platform.budget
    if budget is None:
        return
    names = ", ".join(platform.tags)
    if not platform.tags:
        reason = "the platform has no tags, by which AWS Budgets would find its costs"
        yield ("budget",), reason, f"add a tag, for example `tags: {{Platform: {platform.name}}}`"
    elif budget.tag is None and len(platform.tags) > 1:
        reason = f"the platform has {len(platform.tags)} tags, and a budget counts the costs of one"
        yield ("budget",), reason, f"set `tag` to one of {names}"
    elif budget.tag is not None and budget.tag not in platform.tags:
        yield ("budget", "tag"), "the platform has no such tag", f"write one of {names}"


@rule
def a_budget_tells_somebody(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A notification of AWS Budgets has a subscriber."""
    budget = platform.budget
    if budget is not None and not (budget.notify or platform.observability.notify):
        yield ("budget",), "nobody is notified", "add `notify`, for example `notify: finance@example.com`"


@rule
def percentages_of_a_budget_differ(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """AWS Budgets takes a notification of a threshold once."""
    if platform.budget is not None and len(set(platform.budget.at_percent)) < len(platform.budget.at_percent):
        yield ("budget", "at_percent"), "a percentage is there twice", "remove one of them"


@published_rule
def budgets_are_in_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """CloudFormation has budgets in the Region. They are global, and few Regions have the type."""
    regions = service_facts().budgets.regions
    if platform.budget is not None and platform.region not in regions:
        reason = f"CloudFormation has no AWS::Budgets::Budget in {platform.region}"
        yield ("budget",), reason, "remove the section, and create the budget by the console or by `aws budgets`"


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
