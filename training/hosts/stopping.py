"""Stop all ranks after the same step when any rank receives SIGTERM or SIGUSR1."""

import signal
import threading

import torch
import torch.distributed as dist

_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopSignal:
    """Handler of both signals, from its creation on."""

    def __init__(self) -> None:
        self._arrived = threading.Event()
        for number in _SIGNALS:
            signal.signal(number, lambda *_: self._arrived.set())

    def request(self) -> None:
        """End the run as a signal would."""
        self._arrived.set()

    def ignore_from_now_on(self) -> None:
        """Ignore both signals after the end of the run.

        Python removes its handlers on exit, and a signal would then kill the process.
        """
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def reached_any_rank(self) -> bool:
        """Return whether any rank was told to stop. Every rank calls this, and gets the same result.

        The hosts agree on it over gloo, without their devices. A device would first have to finish the steps in its
        queue. A run therefore ends at most two steps after the signal.
        """
        arrived = torch.tensor(float(self._arrived.is_set()))
        dist.all_reduce(arrived)
        return bool(arrived)
