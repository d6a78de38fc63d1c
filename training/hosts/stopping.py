"""Stop all ranks after the same step when any rank receives SIGTERM or SIGUSR1.

The ranks agree through the store of their rendezvous, and not with a collective of all hosts, which takes longer with
every rank. The store has one entry. The entry is either the last step that any rank has passed, or the step after which
all ranks stop. Each change of the entry is atomic, and there are two:

- The first rank that passes a step writes that step.
- A rank that was told to stop writes the step that follows the last one passed, as the step after which all stop.

A rank passes a step only if the entry allows it. A rank that is ahead of the others therefore cannot pass the step that
is chosen. `python -m benchmarks.stop_agreement` measures what the agreement costs in each step.
"""

import signal
import time

import torch.distributed as dist
from torch._C._distributed_c10d import Store  # the public name is not declared as exported

_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
_ENTRY = "trainway/stop"
_PASSED, _STOP = "passed", "stop after"
# By default, torchrun checks for waiting hosts every 0.1 seconds (--monitor-interval).
_SECONDS_UNTIL_ALL_ARE_TOLD = 5.0
_SECONDS_BETWEEN_LOOKS = 0.02


class StopSignal:
    """Handler of both signals, from its creation on."""

    _store: Store

    def __init__(self) -> None:
        # No Event: a second signal can interrupt the handler of the first one, and an Event has a lock that the handler
        # would then wait for, which it holds itself.
        self._arrived = False
        self._steps = 0
        for number in _SIGNALS:
            signal.signal(number, lambda *_: self.request())

    def share(self, store: Store) -> None:
        """Share the signal with all ranks through their store. Every rank calls this once, before its first step."""
        self._store = store
        if dist.get_rank() == 0:
            # Each attempt begins with its own entry. One before it may have left one: torchrun can keep the store, and
            # does not count every attempt.
            store.set(_ENTRY, f"{_PASSED} 0")
        dist.barrier()

    def request(self) -> None:
        """End the run as a signal would."""
        self._arrived = True

    def arrived(self) -> bool:
        """Return whether the run was told to stop."""
        return self._arrived

    def wait_until_told(self) -> None:
        """Wait until this rank gets a stop signal, at most _SECONDS_UNTIL_ALL_ARE_TOLD. Call this after the last step.

        When a host joins the run, the agent of each host sends SIGTERM to its own ranks. The first agent that does so
        stops the ranks of all hosts. If ranks exit before their agent notices the new host, the agent reports success,
        and never restarts them.
        """
        end = time.monotonic() + _SECONDS_UNTIL_ALL_ARE_TOLD
        while not self._arrived and time.monotonic() < end:
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def ignore_from_now_on(self) -> None:
        """Ignore both signals after the end of the run.

        Python removes its handlers on exit, and a signal would then kill the process.
        """
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def reached_any_rank(self) -> bool:
        """Return whether all ranks stop after this step. Every rank calls this once in every step.

        The steps are counted here, because a run that diverges goes back to earlier steps. The agreement does not use
        the devices, which would first have to finish the steps in their queues. When the rank that was told to stop
        asks, other ranks may have passed this step and, on GPUs, the next one. A run therefore ends at most three steps
        after the signal.

        Raises:
            torch.distributed.DistError: the host of the store has ended, or the store has lost the entry.
        """
        self._steps += 1
        here = self._steps
        entry = self._change(f"{_PASSED} {here - 1}", f"{_STOP if self._arrived else _PASSED} {here}")
        while entry.startswith(_PASSED) and self._arrived:
            entry = self._change(entry, f"{_STOP} {_step_of(entry) + 1}")
        return entry.startswith(_STOP) and here >= _step_of(entry)

    def _change(self, entry: str, wanted: str) -> str:
        """Replace the entry of the store if it has this value. Return the value that it has then."""
        found: bytes = self._store.compare_set(_ENTRY, entry, wanted)
        if found.decode() == entry:
            # A store without the entry returns the value that it was asked to replace.
            raise dist.DistStoreError(
                f"the store of the rendezvous has lost {_ENTRY}, through which all ranks agree on a stop; start the "
                "job again, and let nothing else delete keys of its store"
            )
        return found.decode()


def _step_of(entry: str) -> int:
    return int(entry.rpartition(" ")[2])
