"""What the training image is built with: container/Dockerfile's arguments, from the platform and the versions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.versions import Combination, Release, Versions, combination_named, images_of, release
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform
from trainway.spec.sections.image import DEVEL, ImageVariant

# 2026-01-01. It never changes: another date would be another image of the same content.
EPOCH = 1767225600


def variant_of(platform: Platform, catalogue: Catalogue) -> ImageVariant:
    """Return the variant that the image's jobs need. With GPUs and Neuron devices, it is the variant for GPUs."""
    return platform.image.variant or variants_with_nodes(platform, catalogue)[0]


def variants_with_nodes(platform: Platform, catalogue: Catalogue) -> tuple[ImageVariant, ...]:
    """Return the variants cuda and neuron whose accelerators the image's node groups have, or cpu without any."""
    types = (catalogue[name] for group in platform.image_groups for name in group.instance_types)
    vendors = {instance.accelerator.vendor for instance in types if instance.accelerator}
    chosen: dict[ImageVariant, bool] = {"cuda": "nvidia" in vendors, "neuron": "neuron" in vendors, "cpu": not vendors}
    return tuple(variant for variant, is_chosen in chosen.items() if is_chosen)


def key_of_image(platform: Platform) -> str:
    """Return the key of the image's section in the platform file: `image`, or for example `images.develop`."""
    name = platform.image_name
    return name if name == DEFAULT_IMAGE else f"images.{name}"


def own_base(platform: Platform) -> str | None:
    """Return the base image that `image.base` names, or None if it is one of the combination's."""
    return None if platform.image.base == DEVEL else platform.image.base


def keeps_base_packages(platform: Platform, catalogue: Catalogue) -> bool:
    """Return whether the Python packages of the base stay as they are. Those of the Neuron SDK's image always do."""
    return platform.image.base_packages == "kept" or variant_of(platform, catalogue) == "neuron"


def needs_the_agent(platform: Platform) -> bool:
    """Whether HyperPod's training operator starts jobs, through the command `hyperpodrun` of its elastic agent.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-install.html (read 2026-11-22)
    """
    return platform.hyperpod is not None and platform.hyperpod.training_operator


def has_the_agent(platform: Platform, versions: Versions) -> bool:
    """Whether the image has HyperPod's elastic agent: the platform needs it, and the combination has it."""
    return needs_the_agent(platform) and combination_of(platform, versions).hyperpod_elastic_agent is not None


def combination_of(platform: Platform, versions: Versions) -> Combination:
    """Return the combination of versions that the image is built from.

    It is the one that `image.versions` names. Without that key it is the default or, on a platform with HyperPod's
    training operator whose default has no elastic agent, the first combination that has it.
    """
    chosen = combination_named(versions, platform.image.versions or versions.default)
    assert chosen, "VERSION_RULES and the rules of the platform file let nothing else pass"
    if platform.image.versions or not needs_the_agent(platform) or chosen.hyperpod_elastic_agent:
        return chosen
    return next((each for each in versions.combinations if each.hyperpod_elastic_agent), chosen)


def packages_date(platform: Platform, versions: Versions) -> date | None:
    """Return the day of the Ubuntu snapshot for the image's packages, or None for the packages of the build's day.

    An image that begins with `image.base` follows a snapshot only if the platform file names one: its distribution is
    not known here.
    """
    if platform.image.refresh or own_base(platform):
        return platform.image.refresh
    images = images_of(versions, combination_of(platform, versions))
    assert images, "VERSION_RULES let nothing else pass"
    return images.packages


def snapshot_address(day: date | None) -> str:
    """Return where the snapshot of Ubuntu's archive at the beginning of a day (UTC) is served; empty without a day.

    https://snapshot.ubuntu.com (read 2026-11-23)
    """
    return f"https://snapshot.ubuntu.com/ubuntu/{day:%Y%m%d}T000000Z" if day else ""


def has_additions(platform: Platform) -> bool:
    """Whether the image has more on its base than the job: packages, or what a Dockerfile of the user's builds."""
    packages = platform.image.packages
    return bool(packages.apt or packages.pip or platform.image.dockerfile is not None)


def beside(platform: Platform, versions: Versions) -> str:
    """Return the name of what the image has before packages of the user's: the combination and the add-ons."""
    agent = ["hyperpod-elastic-agent"] if has_the_agent(platform, versions) else []
    return " ".join([combination_of(platform, versions).name, *sorted({*platform.image.add, *agent})])


def bases_of_earlier_images(platform: Platform, catalogue: Catalogue, versions: Versions) -> dict[str, str]:
    """Return the images that are built on the base of an earlier one, with the name of that one.

    Builds with the same arguments have the same base. Images of the user's are left out.
    """
    found, first = dict[str, str](), dict[tuple[tuple[str, str], ...], str]()
    for name in platform.image_names:
        view = platform.of_image(name)
        if view.image.uri is None:
            arguments = tuple(sorted(build_arguments(view, catalogue, versions).items()))
            earlier = first.setdefault(arguments, name)
            found |= {} if earlier == name else {name: earlier}
    return found


def build_arguments(platform: Platform, catalogue: Catalogue, versions: Versions) -> dict[str, str]:
    """Return the build arguments by name. An argument is empty if the variant has no such part.

    SOURCE_DATE_EPOCH (seconds) is the date of the image and of what is installed in it, and not that of the build: with
    it, one content has one digest.
    https://docs.docker.com/build/ci/github-actions/reproducible-builds/ (read 2026-11-21)
    """
    chosen, variant = combination_of(platform, versions), variant_of(platform, catalogue)
    kept = keeps_base_packages(platform, catalogue)
    wheel = _released(versions.pytorch, chosen.pytorch)
    nemo = _released(versions.nemo, chosen.nemo)
    engine = _released(versions.transformer_engine, chosen.transformer_engine)
    of_the_agent = {"HYPERPOD_ELASTIC_AGENT_VERSION": chosen.hyperpod_elastic_agent or ""}
    of_flash_attention = {"FLASH_ATTENTION_VERSION": chosen.flash_attention}
    of_nemo = {"NEMO_VERSION": nemo.version}
    of_transformer_engine = {
        "TRANSFORMER_ENGINE_CORE_SHA256": engine.core_sha256,
        "TRANSFORMER_ENGINE_SHA256": engine.sha256,
        "TRANSFORMER_ENGINE_TORCH_SHA256": engine.torch_sha256,
        "TRANSFORMER_ENGINE_VERSION": engine.version,
    }
    of_the_wheel = {"PYTORCH_SHA256": wheel.sha256, "PYTORCH_VERSION": wheel.version}
    return (
        _of_every_variant(platform, catalogue, versions)
        | _if(has_the_agent(platform, versions), of_the_agent)
        | _if("flash-attention" in platform.image.add, of_flash_attention)
        | _if("nemo" in platform.image.add, of_nemo)
        | _if("transformer-engine" in platform.image.add, of_transformer_engine)
        | _if(not kept, of_the_wheel)
        | _if(variant == "cuda", _of_efa(chosen, versions))
        | _if(variant == "cuda" and not kept, _of_cuda(chosen, versions))
    )


def _of_every_variant(platform: Platform, catalogue: Catalogue, versions: Versions) -> dict[str, str]:
    """Return the arguments that no variant leaves empty, except the snapshot of an image without one."""
    chosen, variant = combination_of(platform, versions), variant_of(platform, catalogue)
    kept = keeps_base_packages(platform, catalogue)
    images = images_of(versions, chosen)
    assert images, "VERSION_RULES let nothing else pass"
    return {
        "BASE_IMAGE": own_base(platform) or images.base,
        "CUDA_TOOLKIT": "with" if platform.image.base == DEVEL else "without",
        # No page of SageMaker says that its training jobs can read zstd.
        "LAYER_COMPRESSION": "gzip" if platform.iam.training_jobs else "zstd",
        "HYPERPOD_ELASTIC_AGENT": "with" if has_the_agent(platform, versions) else "without",
        "LAYOUT": "kept" if kept and variant != "neuron" else variant,
        "FLASH_ATTENTION": "with" if "flash-attention" in platform.image.add else "without",
        "MATRIX_NAME": chosen.name,
        "NCCL": "required" if chosen.nccl is None or variant != "cuda" or kept else "replaced",
        "NEMO": "with" if "nemo" in platform.image.add else "without",
        "SOURCE_DATE_EPOCH": str(EPOCH),
        "TRANSFORMER_ENGINE": "with" if "transformer-engine" in platform.image.add else "without",
        "UBUNTU_SNAPSHOT": snapshot_address(packages_date(platform, versions)),
        "VARIANT": variant,
    }


def _of_efa(chosen: Combination, versions: Versions) -> dict[str, str]:
    """Return the versions of EFA, which the variant for GPUs has whether its base keeps its packages or not."""
    installer = _released(versions.efa_installers, chosen.efa_installer)
    assert installer.sha256, "VERSION_RULES let nothing else pass"
    return {
        "AWS_OFI_NCCL_VERSION": installer.aws_ofi_nccl,
        "EFA_INSTALLER_SHA256": installer.sha256,
        "EFA_INSTALLER_URL": installer.url,
        "EFA_INSTALLER_VERSION": installer.version,
        "LIBFABRIC_VERSION": installer.libfabric,
    }


def _of_cuda(chosen: Combination, versions: Versions) -> dict[str, str]:
    """Return the versions of what the variant for GPUs has below PyTorch beside EFA: CUDA, NCCL, and GDRCopy."""
    wheel = _released(versions.pytorch, chosen.pytorch)
    tests, gdrcopy = _released(versions.nccl_tests, chosen.nccl_tests), _released(versions.gdrcopy, chosen.gdrcopy)
    return {
        "CUDA_TOOLKIT_VERSION": wheel.cuda_toolkit,
        "CUDA_VERSION": wheel.cuda,
        "GDRCOPY_SHA256": gdrcopy.sha256,
        "GDRCOPY_URL": gdrcopy.url,
        "GDRCOPY_VERSION": gdrcopy.version,
        "NCCL_TESTS_SHA256": tests.sha256,
        "NCCL_TESTS_URL": tests.url,
        "NCCL_TESTS_VERSION": tests.version,
        "NCCL_SHA256": _released(versions.nccl, chosen.nccl).sha256 if chosen.nccl else "",
        "NCCL_VERSION": chosen.nccl or wheel.nccl,
    }


def _released(among: Iterable[Release], version: str) -> Release:
    """Return the release of a version that a combination names."""
    found = release(among, version)
    assert found, "VERSION_RULES let nothing else pass"
    return found


def _if(there: bool, arguments: dict[str, str]) -> dict[str, str]:
    """Return the arguments, or empty ones if the image lacks their part. The Dockerfile names every argument."""
    return arguments if there else dict.fromkeys(arguments, "")
