"""An emulated AWS on this machine: moto's services, and a CloudFormation that fails where AWS's would.

    with running() as emulator:
        subprocess.run(["cdk", "deploy", "--all"], env={**os.environ, **emulator.environment()})
        emulator.resources()

docs/emulator.md describes what it does and does not do. Importing this package is cheap, because moto runs in its own
process.
"""

from emulator.process import Emulator, EmulatorError, EmulatorStatus, current, running, start, status, stop
from emulator.published import EVERYWHERE

__all__ = ["EVERYWHERE", "Emulator", "EmulatorError", "EmulatorStatus", "current", "running", "start", "status", "stop"]
