"""`image`: the training image."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainway.spec.facts.versions import PinnedImage
from trainway.spec.values import Section

ImageVariant = Literal["cuda", "neuron", "cpu"]
AddOn = Literal["transformer-engine", "nemo"]


class Image(Section):
    """The training image, built on deploy."""

    versions: str | None = Field(
        None, description="A combination of trainway/spec/facts/versions.yaml. Default: the one that it calls so."
    )
    variant: ImageVariant | None = Field(
        None,
        description="What its jobs compute on: cuda, neuron or cpu. Default: what the node groups have; cuda where "
        "they have GPUs and Neuron devices.",
    )
    base: PinnedImage | None = Field(
        None,
        description="What it begins with instead of the combination's base, pinned by its digest: an image of the same "
        "system. A Neuron image needs it: the Neuron SDK's image for PyTorch training.",
    )
    add: tuple[AddOn, ...] = Field(
        (),
        description="What else is in a CUDA image, at the combination's versions: transformer-engine, compiled there, "
        "and nemo, which is NeMo AutoModel.",
    )
    keep: int = Field(20, ge=1, le=1000, description="Number of images that the registry keeps. Older images expire.")
