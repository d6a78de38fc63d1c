"""SIGTERM and SIGUSR1, to any rank: all ranks end after the same step."""

import signal
import threading

import torch
import torch.distributed as dist

_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopSignal:
    """Takes both signals from its making on."""

    def __init__(self) -> None:
        self._arrived = threading.Event()
        for number in _SIGNALS:
            signal.signal(number, lambda *_: self._arrived.set())

    def request(self) -> None:
        """Ends the run as a signal would."""
        self._arrived.set()

    def ignore_from_now_on(self) -> None:
        """The run has ended. Python takes its handlers back on the way out, and a signal would then end the process."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def reached_any_rank(self) -> bool:
        """Return whether one of the ranks was told to stop. Called by every rank; the same on each.

        The hosts agree on it among themselves, over gloo. No device takes part, because each has a step before it that
        this would have to wait for: so a run ends at most two steps after the signal.
        """
        arrived = torch.tensor(float(self._arrived.is_set()))
        dist.all_reduce(arrived)
        return bool(arrived)
