"""Command lines read by the programs' own definitions: botocore's models, and the help of the real helm and kubectl."""

from __future__ import annotations

import re
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import botocore.session
import jmespath  # type: ignore[import-untyped]
from botocore import xform_name
from botocore.exceptions import UnknownServiceError
from botocore.model import Shape

from tests.kubernetes_tools import tool

# Commands of the AWS CLI that are no operation of a service, with those of their own options that a stage may write.
# From https://github.com/aws/aws-cli/tree/2.36.7/awscli/customizations: s3/subcommands.py, s3/syncstrategy/delete.py,
# eks/update_kubeconfig.py, ecr.py (read 2026-11-22). CodeBuild's image may have a newer AWS CLI.
COMMANDS_OF_THE_CLI = {
    ("s3", "cp"): {"--only-show-errors", "--no-progress", "--recursive"},
    ("s3", "sync"): {"--only-show-errors", "--no-progress", "--delete"},
    ("eks", "update-kubeconfig"): {"--name", "--kubeconfig", "--role-arn", "--alias"},
    ("ecr", "get-login-password"): set[str](),
}
# Some of https://github.com/aws/aws-cli/blob/2.36.7/awscli/data/cli.json (read 2026-11-22)
GLOBAL_OPTIONS = {"--region", "--output", "--query", "--profile", "--endpoint-url", "--no-paginate", "--no-cli-pager"}


def aws_problems(words: Sequence[str]) -> Iterator[str]:
    """Yield what the AWS CLI would refuse in the words after `aws`: services, operations, options, and queries."""
    service, command, *rest = words
    options = {word.partition("=")[0] for word in rest if word.startswith("--")}
    line = f"aws {service} {command}"
    if own := COMMANDS_OF_THE_CLI.get((service, command)):
        yield from (f"{line} has no option {each}" for each in sorted(options - own - GLOBAL_OPTIONS))
        return
    if (service, command) in COMMANDS_OF_THE_CLI:
        yield from (f"{line} has no option {each}" for each in sorted(options - GLOBAL_OPTIONS))
        return
    try:
        # The service `s3` of the CLI has commands of its own, and `s3api` the operations.
        model = _session().get_service_model("s3" if service == "s3api" else service)
    except UnknownServiceError:
        yield f"aws has no service {service}"
        return
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    if command not in operations:
        yield f"aws {service} has no command {command}"
        return
    operation = model.operation_model(operations[command])
    members = operation.input_shape.members if operation.input_shape else {}
    taken = {f"--{xform_name(name, '-')}": shape for name, shape in members.items()}
    yield from (f"{line} has no option {each}" for each in sorted(options - set(taken) - GLOBAL_OPTIONS))
    required = {f"--{xform_name(name, '-')}" for name in operation.input_shape.required_members}
    yield from (f"{line} requires {each}" for each in sorted(required - options))
    for option, value in pairwise(rest):
        if option in taken and (keys := re.match(r"(\w+)=", value)):
            yield from (f"{line} {option} has no key {key}" for key in {keys[1]} - _keys(taken[option]))
        if option == "--query":
            try:
                names = _fields(_compiled(value))
            except (jmespath.exceptions.JMESPathError, PendingDeprecationWarning) as error:
                yield f"{line} --query {value}: {error}"
                continue
            yield from (f"{line} answers no {each}" for each in sorted(names - _names(operation.output_shape)))


def cobra_problems(program: str, words: Sequence[str]) -> Iterator[str]:
    """Yield each flag of a helm or kubectl command line that the real program does not have, or an unknown command."""
    commands = [word for word in words[:2] if re.fullmatch(r"[a-z]+", word)]
    while commands and not (known := _flags(program, tuple(commands))):
        commands.pop()
    if not commands or (len(commands) == 1 and words[0] in GROUPS):
        yield f"{program} has no command {' '.join(words[:2])}"
        return
    for word in words[len(commands) :]:
        flag = word.partition("=")[0]
        if word.startswith("-") and flag not in known:
            yield f"{program} {' '.join(commands)} has no flag {flag}"


# Commands that do nothing without a second word.
GROUPS = ("dependency", "registry", "rollout")


@cache
def _flags(program: str, command: tuple[str, ...]) -> frozenset[str]:
    """The flags that a command has of its own or inherits; none if there is no such command."""
    asked = subprocess.run([tool(program), *command, "--help"], capture_output=True, text=True)
    usage = re.findall(rf"^  {program} (.*)$", asked.stdout, re.MULTILINE)
    if not any(line.startswith(" ".join(command)) for line in usage):
        return frozenset()
    text = asked.stdout
    if program == "kubectl":
        text += _options_of_kubectl()
    return frozenset(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.MULTILINE) + re.findall(r"(-\w), --", text))


@cache
def _options_of_kubectl() -> str:
    """What kubectl prints about the flags that every command inherits."""
    return subprocess.run([tool("kubectl"), "options"], capture_output=True, text=True).stdout


@cache
def _session() -> Any:
    return botocore.session.get_session()


def _keys(shape: Shape) -> set[str]:
    """The keys of the CLI's shorthand `key=value`; of a text, any is a part of the text."""
    inner: Any = shape.member if shape.type_name == "list" else shape  # type: ignore[attr-defined]
    return set(inner.members) if inner.type_name == "structure" else set()


def _compiled(query: str) -> Any:
    """The parsed expression. A literal without quotes is an error here: it loses its spaces, and ` ` is empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return jmespath.compile(query).parsed


def _fields(expression: Any) -> set[str]:
    """The names that a JMESPath expression reads."""
    if expression["type"] == "field":
        return {expression["value"]}
    return set().union(*map(_fields, expression["children"]))


def _names(shape: Any, above: tuple[str, ...] = ()) -> set[str]:
    """The names of all members in a shape."""
    if shape is None or shape.name in above:
        return set()
    inner = (*above, shape.name)
    if shape.type_name == "structure":
        return set(shape.members).union(*(_names(each, inner) for each in shape.members.values()))
    return _names(shape.member, inner) if shape.type_name == "list" else set()
