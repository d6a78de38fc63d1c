"""Set missing keys in Docker's daemon.json: `docker_settings.py FILE`. Print `changed` after a change.

Logs are rotated, because by default they grow until the disk is full. Jobs may request `--runtime=nvidia` if the image
has it. Keys that the image or somebody else has set stay unchanged.
https://github.com/NVIDIA/cloud-native-docs/blob/main/container-toolkit/install-guide.md (read 2026-11-22)
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

LOGS = {"log-driver": "json-file", "log-opts": {"max-size": "100m", "max-file": "3"}}
NVIDIA = "nvidia-container-runtime"


def with_defaults(settings: dict[str, Any], *, nvidia: bool) -> dict[str, Any]:
    """Return the settings with our values for missing keys."""
    # Log options are specific to a driver.
    logs = LOGS if "log-driver" not in settings and "log-opts" not in settings else {}
    runtimes = settings.get("runtimes", {})
    gpu = {"runtimes": {"nvidia": {"path": NVIDIA, "args": []}, **runtimes}} if nvidia else {}
    return {**settings, **logs, **gpu}


def main() -> int:
    file = Path(sys.argv[1])
    try:
        settings = json.loads(file.read_text()) if file.exists() and file.read_text().strip() else {}
        wanted = with_defaults(settings, nvidia=shutil.which(NVIDIA) is not None)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        print(
            f"{file} is not what Docker reads ({error}): correct it in the image or in yours/custom.d", file=sys.stderr
        )
        return 1
    if wanted != settings:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f".{file.name}.new")
        new.write_text(json.dumps(wanted, indent=2) + "\n")
        new.replace(file)
        print("changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
