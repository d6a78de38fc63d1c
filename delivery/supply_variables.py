"""Read the SSM parameter of delivery/supply.sh from standard input, and print its variables for the shell.

    python3 -m delivery.supply_variables PARAMETER

The output is `name NUL value NUL` per variable. The parameter is written by whoever may write to the platform's
account, and read on a person's machine with that person's credentials. So only the names that supply.sh knows are
taken, and only values that can be nothing but what the name says: no option of a program, no second line, no escape
sequence of a terminal.
"""

import json
import re
import sys
from typing import Any

from delivery.build_arguments import words

_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_LOCATION = r"s3://[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9._-]+)*/?"
_SECRET = r"arn:[A-Za-z0-9-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+"
# Names and values as stacks/foundation/registry.py writes them. Tags are those of the distribution's specification:
# https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pull (read 2026-11-24)
PATTERNS = {
    "MIRROR_REGISTRY": r"\d{12}\.dkr\.ecr(\.[a-z0-9-]+){2,}",
    "MIRROR_PREFIX": r"[a-z0-9]+([._/-][a-z0-9]+)*",
    "MIRROR_BUCKET_URI": _LOCATION,
    "BILLS_URI": _LOCATION,
    "CHARTS": r"([a-z0-9][a-z0-9-]*( [a-z0-9][a-z0-9-]*)*)?",
    "BASE_TAG": _TAG,
    "PACKAGES_TAG": _TAG,
    "DOCKERFILE_TAG": _TAG,
    "NETWORK_ACCESS": "private|closed",
    "CONTAINERS": "required|wanted|none",
    "EXPORTERS": "true|false",
    "COLLECTOR": "true|false",
    "BASE_LOGIN_SECRET": _SECRET,
    "PIP_INDEX": r"https?://[A-Za-z0-9][!-~]*",
    "PIP_INDEX_SECRET": _SECRET,
    "DOCKER_HUB_SECRET": _SECRET,
    "RUN_AI_SECRET": rf"{_SECRET}|[A-Za-z0-9/_+=.@][A-Za-z0-9/_+=.@-]*",
    # JSON, which words() reads below.
    "IMAGE_ARGUMENTS": r"(?s).*",
}


def supply_variables(text: str) -> dict[str, str]:
    """Return the variables of the parameter's text. Raises ValueError with each name or value that is not taken."""
    try:
        variables: Any = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(variables, dict):
        raise ValueError("it is not a JSON object")
    wrong = [_mistake(name, value) for name, value in variables.items()]
    if any(wrong):
        raise ValueError(", ".join(filter(None, wrong)))
    return variables


def _mistake(name: str, value: Any) -> str | None:
    """Return what is wrong with a variable, with the value as Python would write it, or None."""
    if name not in PATTERNS:
        return f"{name!a} is no variable of supply.sh"
    if not isinstance(value, str) or "\0" in value or not re.fullmatch(PATTERNS[name], value):
        return f"{name} is {value!a}, which is no value of it"
    if name == "IMAGE_ARGUMENTS":
        try:
            words(json.loads(value))
        except (ValueError, AttributeError) as error:
            return f"{name} is {value!a}: {error}"
    return None


def main() -> None:
    """Print the variables of the parameter on standard input, or what is wrong with them."""
    try:
        variables = supply_variables(sys.stdin.read())
    except ValueError as error:
        sys.exit(
            f"{sys.argv[1]} is not as the image stack writes it: {error}. Deploy the image stack from this checkout"
        )
    sys.stdout.write("".join(f"{name}\0{value}\0" for name, value in variables.items()))


if __name__ == "__main__":
    main()
