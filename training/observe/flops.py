"""The peak arithmetic of a device, and the pace of a model on some."""

from dataclasses import dataclass

import torch

from training.config.arithmetic import flop_per_token
from training.config.presets import Shape

# Dense FLOP/s of bf16 and of fp16, by prefix of the device's name, longer prefixes first (read 2026-11-21). NVIDIA
# prints the figures with sparsity, which are twice these.
PEAK_BF16 = {
    "B200": 2.25e15,  # https://nvdam.widen.net/s/wwnsxrhm2w/blackwell-datasheet-3384703
    "H200": 989e12,  # https://www.nvidia.com/en-us/data-center/h200/
    "H100 NVL": 835e12,  # https://www.nvidia.com/en-us/data-center/h100/
    "H100 PCIe": 756e12,  # https://www.nvidia.com/en-us/data-center/h100/
    "H100": 989e12,  # https://www.nvidia.com/en-us/data-center/h100/
    "A100": 312e12,  # https://www.nvidia.com/en-us/data-center/a100/
    "L40S": 362e12,  # https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413
}


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Return the dense FLOP/s of one device in the job's precision, or None if no published figure is known."""
    if device.type != "cuda" or precision not in ("bf16", "fp16"):
        return None
    name = torch.cuda.get_device_name(device).removeprefix("NVIDIA ")
    return next((peak for prefix, peak in PEAK_BF16.items() if name.startswith(prefix)), None)


@dataclass(frozen=True)
class Pace:
    """The work of a step, from which the throughput follows."""

    tokens_per_step: int
    flop_per_token: float
    causal_flop_per_token: float
    peak: float | None
    """FLOP/s of all devices together. None if no published figure is known."""

    def of(self, step_seconds: float) -> dict[str, float | None]:
        """Return the tokens per second, and the share of the peak by both formulas."""
        rate = self.tokens_per_step / step_seconds
        return {
            "tokens_per_second": rate,
            "mfu": rate * self.flop_per_token / self.peak if self.peak else None,
            "mfu_causal": rate * self.causal_flop_per_token / self.peak if self.peak else None,
        }


def pace_of(
    shape: Shape, vocabulary: int, sequence_length: int, tokens_per_step: int, peak: float | None, devices: int
) -> Pace:
    """Return the pace of a model on `devices` devices, each with a peak of `peak` FLOP/s."""
    return Pace(
        tokens_per_step,
        flop_per_token(shape, vocabulary, sequence_length),
        flop_per_token(shape, vocabulary, sequence_length, causal=True),
        peak * devices if peak else None,
    )
