"""What the training image can begin with."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.image_build import own_base, variant_of
from trainway.spec.derived.image_reference import ecr_repository_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.deep_learning_containers import deep_learning_containers
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, image_rule, instance_types
from trainway.spec.sections.image import DEVEL


@image_rule
def a_base_of_aws_is_in_its_account(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A base of AWS's Deep Learning Containers is in the account that has them in the Region that it names."""
    found = ecr_repository_of(own_base(platform) or "")
    accounts = deep_learning_containers().accounts
    if found is None or found.account not in accounts.values():
        return
    account = accounts.get(found.region)
    if account is None:
        regions = [region for region, each in accounts.items() if each == found.account]
        reason = f"AWS's Deep Learning Containers are not known to be in {found.region}"
        yield ("image", "base"), reason, f"name the registry of another Region, for example {regions[0]}"
    elif account != found.account:
        reason = f"AWS's Deep Learning Containers in {found.region} are in account {account}"
        yield ("image", "base"), reason, f"write {account}.dkr.ecr.{found.region}.amazonaws.com/…"


@image_rule
def a_toolkit_is_for_gpus(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """`image.base: devel` is NVIDIA's image with the CUDA toolkit."""
    if platform.image.base != DEVEL or any(name not in catalogue for _, name in instance_types(platform)):
        return
    if (variant := variant_of(platform, catalogue)) != "cuda":
        reason = f"{DEVEL} is the base with the CUDA toolkit, and the image is for {variant}"
        yield ("image", "base"), reason, "remove it, or write variant: cuda on a platform with GPUs"


@image_rule
def packages_are_kept_of_a_base(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.base_packages: kept` is for a base that has PyTorch, and for nothing that would replace its packages."""
    if platform.image.base_packages != "kept":
        return
    key = ("image", "base_packages")
    if own_base(platform) is None:
        yield key, "the combination's base has no Python packages to keep", "name a base with PyTorch as image.base"
    elif platform.image.add:
        reason = f"{' and '.join(platform.image.add)} would replace packages of the base"
        yield key, reason, "remove image.add, and take a base that has them"
    elif platform.image.versions:
        reason = "the versions are those of the base, and no combination's"
        yield ("image", "versions"), reason, "remove it, or write base_packages: replaced"


@image_rule
def a_login_is_for_a_base_outside_of_ecr(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.base_login` logs in to the registry of `image.base`, and the build's own role does so in ECR."""
    if platform.image.base_login is None:
        return
    base = own_base(platform)
    if base is None:
        reason = "the combination's base needs no login, and `image.base` names no other"
        yield ("image", "base_login"), reason, "write image.base, or remove base_login"
    elif ecr_repository_of(base):
        reason = "image.base is in ECR, where the build logs in with its role"
        remedy = "remove it; for an image of another account, the policy of its repository lets this account pull"
        yield ("image", "base_login"), reason, remedy
