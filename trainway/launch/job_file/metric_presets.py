"""Regular expressions for the lines of well-known training programs, by the name that `run.metrics` gives them."""

from __future__ import annotations

from typing import Final

_NUMBER: Final = r"([-+]?[\d.]+(?:[eE][-+]?\d+)?|nan|inf)"

# trainer: transformers 5.23, whose progress bar and dictionary print no step of their own. megatron: Megatron-LM and
# Megatron-Bridge 0.6. titan: torchtitan 0.3. automodel: NeMo AutoModel 0.7. verl: verl 0.9. nccl: nccl-tests 2.17.
METRIC_PRESETS: Final[dict[str, dict[str, str]]] = {
    "trainer": {"step": r"(\d+)/\d+ \[", "loss": rf"'loss': '?{_NUMBER}"},
    "megatron": {"step": r"iteration\s+(\d+)/", "loss": rf"lm loss: {_NUMBER}"},
    "titan": {"step": r"step:\s*(\d+)\s+loss:", "loss": rf"step:\s*\d+\s+loss:\s*{_NUMBER}"},
    "automodel": {"step": r"step (\d+) \|", "loss": rf"step \d+ \|.*?loss {_NUMBER}"},
    "verl": {"step": r"step:(\d+) ", "loss": rf"actor/pg_loss:{_NUMBER}", "reward": rf"critic/rewards/mean:{_NUMBER}"},
    "nccl": {"bus_bandwidth": rf"Avg bus bandwidth\s*:\s*{_NUMBER}"},
}
