"""Prints the --build-arg options that container/versions.yaml stands for, one word a line."""

import sys
from pathlib import Path
from typing import Any

import yaml


def build_arguments(versions: dict[str, dict[str, Any]]) -> list[str]:
    """Returns `--build-arg NAME=VALUE` for each entry, in the file's order.

    Raises:
        ValueError: an entry has no build argument, or a value that is not text (an unquoted 13.0 is a number in YAML,
            and would lose its trailing zero).
    """
    words = []
    for key, entry in versions.items():
        name, value = entry.get("build_argument"), entry.get("value")
        if not isinstance(name, str) or not isinstance(value, str):
            raise ValueError(f"{key}: build_argument and value must both be text; put the value in quotes")
        words += ["--build-arg", f"{name}={value}"]
    return words


def main() -> int:
    path = Path(sys.argv[1])
    try:
        words = build_arguments(yaml.safe_load(path.read_text()))
    except (OSError, ValueError, AttributeError, yaml.YAMLError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    print("\n".join(words))
    return 0


if __name__ == "__main__":
    sys.exit(main())
