"""Prints the --build-arg options of the training image, one word a line: build_arguments.py FILE.

The file is the JSON object that the deploy writes: container/Dockerfile's arguments by name.
"""

import json
import sys
from pathlib import Path


def words(arguments: dict[str, str]) -> list[str]:
    """Returns `--build-arg NAME=VALUE` for each argument, in the object's order."""
    return [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]


if __name__ == "__main__":
    print("\n".join(words(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
