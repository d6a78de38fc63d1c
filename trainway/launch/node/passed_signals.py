"""Run a command, and pass the signals of this process on to it.

The first process of a container ignores a signal without a handler. A program that prepares its command first therefore
makes `PassedSignals` at its start.
"""

import signal
import subprocess
import time
from collections.abc import Mapping

_SECONDS_BETWEEN_LOOKS = 0.1
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class PassedSignals:
    """The signals that arrive at this process, from the creation of the object on.

    `arrived` says whether any has arrived. It is no Event: a second signal can interrupt the handler of the first one,
    which would then wait for a lock that it holds itself.
    """

    def __init__(self) -> None:
        self.arrived = False
        self._early: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        for number in PASSED_ON:
            signal.signal(number, self._pass_on)

    def run(self, command: "list[str]", environment: "Mapping[str, str] | None" = None) -> int:
        """Run a command to its end, and return its exit status. Raises OSError if it cannot start.

        The command also gets the signals that arrived before its start.
        """
        self._process = subprocess.Popen(command, env=environment)
        for number in self._early:
            self._process.send_signal(number)
        status = self._process.wait()
        return 128 - status if status < 0 else status

    def wait(self, seconds: float) -> None:
        """Wait for the first signal, at most some seconds."""
        end = time.monotonic() + seconds
        while not self.arrived and time.monotonic() < end:
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _pass_on(self, number: int, _frame: object) -> None:
        self.arrived = True
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)
