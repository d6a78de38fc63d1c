"""Names by which a deploy and a launcher find what the other wrote. No import takes time here."""

from __future__ import annotations

from typing import Final

# The name of the image that jobs use which name none.
DEFAULT_IMAGE: Final = "image"
# Where a pod has a directory of its node on a platform without a file system.
NODE_PATH: Final = "/mnt/node"


def chosen_image_parameter_name(platform: str, image: str = DEFAULT_IMAGE) -> str:
    """Return the name of the SSM parameter that can hold the ChosenImage of a platform's image. No stack has it."""
    return f"/trainway/{platform}/chosen-image{_suffix(image)}"


def image_parameter_name(platform: str, image: str = DEFAULT_IMAGE) -> str:
    """Return the name of the SSM parameter that holds the BuiltImage of a platform's image."""
    return f"/trainway/{platform}/image{_suffix(image)}"


def image_repository(platform: str, image: str = DEFAULT_IMAGE) -> str:
    """Return the name of the ECR repository of an image of the platform."""
    return f"{platform}/training" if image == DEFAULT_IMAGE else f"{platform}/training-{image}"


def image_stack_name(platform: str, image: str = DEFAULT_IMAGE) -> str:
    """Return the name of the stack, and of the pipeline in it, that builds a platform's image."""
    return f"{platform}-image" if image == DEFAULT_IMAGE else f"{platform}-image-{image}"


def metrics_workspace_alias(platform: str, *, is_hyperpod: bool) -> str:
    """Return the alias of the workspace of a platform's metrics in Amazon Managed Service for Prometheus."""
    return f"{platform}-{'hyperpod' if is_hyperpod else 'eks'}"


def _suffix(image: str) -> str:
    return "" if image == DEFAULT_IMAGE else f"/{image}"


def parameter_name(platform: str) -> str:
    """Return the name of the SSM parameter that holds the Pointer to the platform's hand-off."""
    return f"/trainway/{platform}/hand-off"
