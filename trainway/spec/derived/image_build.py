"""What the training image is built with: container/Dockerfile's arguments, from the platform and the versions."""

from __future__ import annotations

from trainway.spec.derived.group_types import all_types
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.versions import Combination, Versions, images_of, release
from trainway.spec.platform import Platform
from trainway.spec.sections.image import ImageVariant

# 2026-01-01. It never changes: another date would be another image of the same content.
EPOCH = 1767225600


def variant_of(platform: Platform, catalogue: Catalogue) -> ImageVariant:
    """The variant that the platform's jobs need; where it has GPUs and Neuron devices, the one for GPUs."""
    return platform.image.variant or variants_with_nodes(platform, catalogue)[0]


def variants_with_nodes(platform: Platform, catalogue: Catalogue) -> tuple[ImageVariant, ...]:
    """The variants whose jobs use what the nodes have."""
    vendors = {instance.accelerator.vendor for instance in all_types(platform, catalogue) if instance.accelerator}
    chosen: dict[ImageVariant, bool] = {"cuda": "nvidia" in vendors, "neuron": "neuron" in vendors, "cpu": not vendors}
    return tuple(variant for variant, is_chosen in chosen.items() if is_chosen)


def needs_the_agent(platform: Platform) -> bool:
    """Whether the image needs HyperPod's elastic agent: the training operator starts jobs through its `hyperpodrun`.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-install.html (read 2026-11-22)
    """
    return platform.hyperpod is not None and platform.hyperpod.training_operator


def combination_of(platform: Platform, versions: Versions) -> Combination:
    """The combination that the image is built from.

    It is the one that `image.versions` names. Without that key it is the default or, if the image needs HyperPod's
    elastic agent and the default has none, the first combination that has it.
    """
    name = platform.image.versions or versions.default
    chosen = next(each for each in versions.combinations if each.name == name)
    if platform.image.versions or not needs_the_agent(platform) or chosen.hyperpod_elastic_agent:
        return chosen
    return next((each for each in versions.combinations if each.hyperpod_elastic_agent), chosen)


def build_arguments(platform: Platform, catalogue: Catalogue, versions: Versions) -> dict[str, str]:
    """The arguments by name, of versions that their rules have passed; empty where the variant has nothing of the kind.

    SOURCE_DATE_EPOCH (seconds) is the date of the image and of what is installed in it, and not that of the build: with
    it, one content has one digest.
    https://docs.docker.com/build/ci/github-actions/reproducible-builds/ (read 2026-11-21)
    """
    chosen = combination_of(platform, versions)
    images, wheel = images_of(versions, chosen), release(versions.pytorch, chosen.pytorch)
    installer = release(versions.efa_installers, chosen.efa_installer)
    tests = release(versions.nccl_tests, chosen.nccl_tests)
    engine, nemo = release(versions.transformer_engine, chosen.transformer_engine), release(versions.nemo, chosen.nemo)
    assert images and wheel and installer and tests and engine and nemo, "VERSION_RULES let nothing else pass"
    variant = variant_of(platform, catalogue)
    base = platform.image.base or (images.cpu if variant == "cpu" else images.cuda)
    every_variant = {
        "BASE_IMAGE": base,
        # No stage of another variant is built, and yet its image has to have a name.
        "CUDA_DEVEL_IMAGE": images.cuda_devel,
        # No page of SageMaker says that its training jobs can read zstd.
        "LAYER_COMPRESSION": "gzip" if platform.iam.training_jobs else "zstd",
        "HYPERPOD_ELASTIC_AGENT": "with" if needs_the_agent(platform) else "without",
        "MATRIX_NAME": chosen.name,
        "NEMO": "with" if "nemo" in platform.image.add else "without",
        "SOURCE_DATE_EPOCH": str(EPOCH),
        "TRANSFORMER_ENGINE": "with" if "transformer-engine" in platform.image.add else "without",
        "VARIANT": variant,
    }
    of_the_wheel = {"PYTORCH_SHA256": wheel.sha256, "PYTORCH_VERSION": wheel.version}
    of_cuda = {
        "AWS_OFI_NCCL_VERSION": installer.aws_ofi_nccl,
        "CUDA_VERSION": wheel.cuda,
        "EFA_INSTALLER_SHA256": installer.sha256,
        "EFA_INSTALLER_URL": installer.url,
        "EFA_INSTALLER_VERSION": installer.version,
        "LIBFABRIC_VERSION": installer.libfabric,
        "NCCL_TESTS_SHA256": tests.sha256,
        "NCCL_TESTS_URL": tests.url,
        "NCCL_TESTS_VERSION": tests.version,
        "NCCL_VERSION": wheel.nccl,
    }
    of_nemo = {"NEMO_VERSION": nemo.version}
    of_the_agent = {"HYPERPOD_ELASTIC_AGENT_VERSION": chosen.hyperpod_elastic_agent or ""}
    of_transformer_engine = {
        "TRANSFORMER_ENGINE_CORE_SHA256": engine.core_sha256,
        "TRANSFORMER_ENGINE_SHA256": engine.sha256,
        "TRANSFORMER_ENGINE_TORCH_SHA256": engine.torch_sha256,
        "TRANSFORMER_ENGINE_VERSION": engine.version,
    }
    return (
        every_variant
        | _if(needs_the_agent(platform), of_the_agent)
        | _if("nemo" in platform.image.add, of_nemo)
        | _if("transformer-engine" in platform.image.add, of_transformer_engine)
        | _if(variant != "neuron", of_the_wheel)
        | _if(variant == "cuda", of_cuda)
    )


def _if(there: bool, arguments: dict[str, str]) -> dict[str, str]:
    """The arguments, empty where their part of the image is not there: the Dockerfile names every one."""
    return arguments if there else dict.fromkeys(arguments, "")
