"""How much arithmetic a token takes, and how much a device can do."""

import torch

from training.presets import Shape

# Dense bf16 FLOP/s by how the device's name begins, more particular names first (read 2026-11-21; NVIDIA prints the
# figures with sparsity, which are twice these).
PEAK_BF16 = {
    "B200": 2.25e15,  # https://nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703
    "H200": 989e12,  # https://www.nvidia.com/en-us/data-center/h200/
    "H100 NVL": 835e12,  # https://www.nvidia.com/en-us/data-center/h100/
    "H100 PCIe": 756e12,  # https://www.nvidia.com/en-us/data-center/h100/
    "H100": 989e12,  # https://www.nvidia.com/en-us/data-center/h100/
    "A100": 312e12,  # https://www.nvidia.com/en-us/data-center/a100/
    "L40S": 362e12,  # https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413
}


def flop_per_token(shape: Shape, vocabulary: int, sequence_length: int) -> float:
    """FLOP to learn from one token: 6 (N - N_embedding) + 12 x layers x hidden x sequence_length.

    PaLM's formula (arXiv 2204.02311, appendix B): 2 for the forward and 4 for the backward pass, for each weight that
    is multiplied and for the scores and values of attention, whose causal half is not discounted. The look-up of an
    embedding multiplies nothing; the output projection does, also where it is the same matrix.
    """
    attention = shape.hidden * shape.head_width * (2 * shape.heads + 2 * shape.key_value_heads)
    feed_forward = 3 * shape.hidden * shape.feed_forward
    norms = 2 * shape.hidden
    multiplied = shape.layers * (attention + feed_forward + norms) + shape.hidden + shape.hidden * vocabulary
    return 6.0 * multiplied + 12.0 * shape.layers * shape.hidden * sequence_length


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Dense FLOP/s of one device in the precision of the job; None where no published figure is known."""
    if device.type != "cuda" or precision != "bf16":
        return None
    name = torch.cuda.get_device_name(device).removeprefix("NVIDIA ")
    return next((peak for prefix, peak in PEAK_BF16.items() if name.startswith(prefix)), None)
