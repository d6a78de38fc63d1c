"""The first process of a container: it starts the job's command, passes signals on, and buries orphans."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

SECONDS_BETWEEN_LOOKS = 0.2
_PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, bool]:
    """Run a command. Return its exit status, and whether it was told to stop.

    The status of a command that a signal ended is 128 and the number of the signal.

    SageMaker tells the first process of a container to stop. The command gets that signal once, and not its children.

    Raises:
        OSError: the command cannot start.
    """
    process = subprocess.Popen(command, env=dict(environment), start_new_session=True)

    stopped = False

    def pass_on(number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True
        process.send_signal(number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == process.pid:
            # Popen would look for the process again.
            process.returncode = os.waitstatus_to_exitcode(status)
            return (process.returncode if process.returncode >= 0 else 128 - process.returncode), stopped
        if not ended:
            time.sleep(SECONDS_BETWEEN_LOOKS)
