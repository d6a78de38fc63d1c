"""Import what a rank imports, in the process from which the ranks are forked: see `elastic.py`.

The process makes no use of a device. A fork of a process that has started CUDA cannot use it.
"""

import importlib
import os
import signal

# Slurm sends the signals of a job to every process. This one must outlive them, because the ranks save meanwhile. It
# ends with the agent.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_BEFORE = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}

# Without this, a module that asks for the number of devices while it is imported starts CUDA.
# https://docs.pytorch.org/docs/stable/cuda_environment_variables.html (read 2026-11-30)
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

_MODULES = (
    # The optimizers import it when the first of them is made, and it takes as long as PyTorch itself.
    "torch._dynamo",
    "torch.distributed.pipelining",
    "torch.nn.attention.bias",
    # A fork runs the module `elastic` again, for the function that it is to call.
    "torch.distributed.run",
    "training.train",
)
for module in _MODULES:
    importlib.import_module(module)


def hear_signals() -> None:
    """Let a rank hear signals as if nothing had been imported before: the rank ignores those that its agent ignores.

    The script of a Slurm job lets all processes ignore the signals for a stop. A rank that still starts must survive
    them until it has handlers.
    """
    for number, before in _BEFORE.items():
        # A fork of the agent itself has the handlers of the agent, which are not those of a rank.
        signal.signal(number, signal.SIG_IGN if before is signal.SIG_IGN else signal.SIG_DFL)
