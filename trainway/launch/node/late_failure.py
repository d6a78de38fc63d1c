"""Run a command, and delay the report of its failure.

    python3 late_failure.py SECONDS COMMAND

A node without ranks, such as a spare node, fails when the run succeeds: torchrun waits in a rendezvous that closes.
Kubernetes would restart the run if it observed this failure before the success of the other nodes. During the delay,
Kubernetes ends the job and this node with it. The exit status is that of the command.

The launcher sends this file and passed_signals.py to the node beside the job file. They require Python 3.9.
"""

import sys
import types
from pathlib import Path

if __name__ == "__main__":
    # On a node, this file and its sibling are in one directory, without the packages above them.
    _package = types.ModuleType("trainway.launch.node")
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules[_package.__name__] = _package

from trainway.launch.node.passed_signals import PassedSignals

NOT_FOUND = 127


def main(seconds: float, command: "list[str]") -> int:
    """Run the command and return its exit status. After a failure, wait `seconds` or for a signal before returning."""
    signals = PassedSignals()
    try:
        status = signals.run(command)
    except OSError as problem:
        print(f"trainway: {command[0]} cannot start: {problem}", file=sys.stderr, flush=True)
        return NOT_FOUND
    if status:
        signals.wait(seconds)
    return status


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
