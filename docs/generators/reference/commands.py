"""Every command of `trainway` as Markdown: its usage, its help, its options, and its example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

from docs.generators.reference.keys import cell
from trainway.cli import app


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Yield each command by its words after `trainway`, in the order of the help."""
    yield from _below(typer.main.get_command(app), ())


def _below(group: Any, above: tuple[str, ...]) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _below(command, (*above, name))
        else:
            yield " ".join((*above, name)), command


def command_text(name: str, command: TyperCommand) -> str:
    """Return the section of a command."""
    context = command.make_context(name.split()[-1], [], resilient_parsing=True)
    parameters = [each for each in _parameters(command, context) if not each.hidden and "--help" not in each.opts]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    words = [_usage(each) for each in arguments]
    options = ["[OPTIONS]"] if len(parameters) > len(arguments) else []
    lines = [f"## `trainway {name}`", "", _help(command), "", "```text"]
    lines += [" ".join(["trainway", name, *options, *words]), "```", ""]
    if parameters:
        lines += ["| Argument or option | Value | Default | Meaning |", "|---|---|---|---|"]
        for each in parameters:
            spelled = ", ".join(f"`{spelling}`" for spelling in (*each.opts, *each.secondary_opts))
            said = cell(_plain(each.help or ""))
            lines.append(f"| {spelled} | {cell(_value(each))} | {_default(each)} | {said} |")
        lines.append("")
    example = _plain(command.epilog or "").removeprefix("Example: ")
    return "\n".join([*lines, "```bash", example, "```", ""] if example else lines)


def _parameters(command: Any, context: Any) -> list[Any]:
    """Return the parameters of a command as Typer's own classes, which the types of Typer do not declare."""
    return list(command.get_params(context))


def _usage(argument: Any) -> str:
    word = argument.metavar or argument.name.upper()
    return word if argument.required else f"[{word}]"


def _help(command: TyperCommand) -> str:
    """Return the help, with one line for each paragraph, and with commands as code."""
    paragraphs = re.split(r"\n\s*\n", _plain(command.help or ""))
    return "\n\n".join(_code(each) if each.strip().startswith("trainway ") else cell(each) for each in paragraphs)


def _code(paragraph: str) -> str:
    lines = " \\\n    ".join(line.strip() for line in paragraph.strip().splitlines())
    return f"```bash\n{lines}\n```"


def _plain(text: str) -> str:
    """Return a text without Rich's markup of colors."""
    return re.sub(r"\[/?(?:cyan|bold|dim)\]|\f", "", text)


def _value(parameter: Any) -> str:
    """Return the kind of value that an option or an argument takes."""
    kind = parameter.type_descriptor.annotation
    repeated = get_origin(kind) is list
    if repeated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        word = ", ".join(f"`{choice}`" for choice in get_args(kind))
    elif kind is bool:
        return ""
    else:
        path = isinstance(kind, type) and issubclass(kind, PurePath)
        word = parameter.metavar or {int: "whole number", float: "number"}.get(kind, "path" if path else "text")
    least = "" if parameter.min is None else f", {parameter.min} or more"
    return f"{word}{least}{', also several times' if repeated and parameter.param_type_name == 'option' else ''}"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default is False or default == () or callable(default) or parameter.show_default is False:
        return ""
    return f"`{'--' if default is True else ''}{parameter.name if default is True else default}`"
