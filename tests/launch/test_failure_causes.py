"""A cause that a program prints counts if it ended the program, and not if the program continued."""

from __future__ import annotations

import pytest

from trainway.launch.node.failure_causes import Causes

ABSENT = "Traceback (most recent call last):\n  import flash_attn\nModuleNotFoundError: No module named 'flash_attn'"
NCCL = "Traceback (most recent call last):\n  work.wait()\ntorch.distributed.DistBackendError: NCCL error in: …"
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has …"
DISK = "OSError: [Errno 28] No space left on device: '/fsx/x'"
DIRECT = "\nThe above exception was the direct cause of the following exception:\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n"
SUMMARY = "\n".join(f"wandb: Run history {number}" for number in range(20))
STEPS = "\n".join(f"step={number} loss=2.0" for number in range(200))
TORCHRUN = (
    "Traceback (most recent call last):\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\n"
)
ENDINGS = {
    "package": [ABSENT, f"{STEPS}\n{ABSENT}", f"{ABSENT}\n{SUMMARY}", f"{ABSENT}\n{TORCHRUN}"],
    "package in a rank": ["".join(f"[default{rank}]:{line}\n" for rank in (0, 1) for line in ABSENT.splitlines())],
    "package that another exception names": [f"{ABSENT}{DIRECT}ImportError: flash attention is required"],
    "memory": [MEMORY, f"{STEPS}\n{MEMORY}\n{SUMMARY}"],
    "disk": [DISK, f"{STEPS}\ncp: error writing 'x': No space left on device"],
    "": [
        f"{ABSENT}\n{STEPS}\n{NCCL}",
        f"{ABSENT}\n{NCCL}",
        f"{ABSENT}{DURING}{NCCL}",
        f"{ABSENT}\n{STEPS}",
        f"{MEMORY}\nretrying with 32\n{STEPS}\nValueError: bad label",
        f"{DISK}\nthe checkpoint was skipped\n{STEPS}",
        f"{ABSENT}\nterminate called after throwing an instance of 'c10::Error'",
        "[default0]:ModuleNotFoundError: No module named 'a'\n[default0]:KeyError: 'b'\n[default1]:KeyError: 'b'",
        STEPS,
    ],
}
SAID = {"package": "flash_attn is absent", "memory": "GPU is out of memory", "disk": "no space is left"}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in ENDINGS.items() for text in texts])
def test_a_cause_counts_where_it_ended_the_program(kind: str, text: str) -> None:
    causes = Causes()
    for line in text.splitlines():
        causes.read(line)
    sentence, _ = causes.sentence(10_000, killed_for_memory=False)
    if not kind:
        assert sentence == ""
    else:
        assert SAID[kind.partition(" ")[0]] in sentence
