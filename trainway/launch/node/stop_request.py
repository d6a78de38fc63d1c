"""Whether a run, or a rank of mpirun, was asked to stop.

A run is asked to stop by a signal to the starter, or by the file `stop` in the run's directory. The second serves
Slurm, which sends signals to all processes of a step.
"""

import os
import signal
import time
from pathlib import Path

from trainway.launch.node.process_tree import STOPS

SECONDS_BETWEEN_LOOKS_AT_FILES = 1.0


class StopRequest:
    """Whether the run was asked to stop, and when. Takes the signals from its making on."""

    def __init__(self, run: Path, number: "signal.Signals") -> None:
        self.asked_at: float | None = None
        self.signal = number
        # Slurm signals all processes of a step, so the program has the signal already.
        self._everybody_hears = "SLURM_STEP_ID" in os.environ
        self._heard: int | None = None
        self._file = run / "stop"
        self._next_look = 0.0
        for each in STOPS:
            signal.signal(each, self._hear)

    def _hear(self, number: int, _frame: object) -> None:
        if self._heard is None:
            self._heard = number

    def look(self) -> bool:
        """Return whether the program has to be signaled now. That is so once."""
        if self.asked_at is not None:
            return False
        by_file = False
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS_AT_FILES
            by_file = self._file.exists()
        if not by_file and self._heard is None:
            return False
        self.asked_at = time.time()
        return by_file or not (self._everybody_hears and self._heard == self.signal)


class RankSignals:
    """The signals that a rank of mpirun gets: SIGUSR1 or SIGUSR2 asks it to stop, and any other one ends it."""

    def __init__(self) -> None:
        self.asked_at: float | None = None
        self._heard: list[int] = []
        for each in STOPS:
            signal.signal(each, lambda number, _frame: self._heard.append(number))

    @property
    def ends(self) -> bool:
        """Whether mpirun has given up."""
        return any(number not in (signal.SIGUSR1, signal.SIGUSR2) for number in self._heard)

    def look(self) -> bool:
        """Return whether the program has to be signaled now. That is so once."""
        if self.asked_at is not None or not self._heard:
            return False
        self.asked_at = time.time()
        return True
