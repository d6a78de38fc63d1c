"""Prints the --build-arg options of the training image, one word a line: build_arguments.py FILE.

The file is the JSON object that the deploy writes: container/Dockerfile's arguments by name.
"""

import json
import re
import sys
from pathlib import Path


def words(arguments: dict[str, str]) -> list[str]:
    """Returns `--build-arg NAME=VALUE` for each argument, in the object's order.

    Raises ValueError for a name or a value that the shell would take for more than one word: it reads a word per line.
    """
    for name, value in arguments.items():
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or not isinstance(value, str) or not _is_one_line(value):
            raise ValueError(f"the argument {name!a} is {value!a}, and a build takes names and values of one line")
    return [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]


def _is_one_line(value: str) -> bool:
    return not any(character < " " or character == "\x7f" for character in value)


if __name__ == "__main__":
    print("\n".join(words(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
