"""The flags of `trainway launch` that belong to targets, made from the options that each target declares.

They are made when `trainway launch` is parsed, so that no other command imports a target.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from trainway.commands.options import with_parameters
from trainway.spec.errors import usage_error

if TYPE_CHECKING:
    from trainway.launch.target.known import AnyTarget
    from trainway.launch.target.options import Declared

ON_PLATFORM = "On a platform"


@dataclass(frozen=True)
class TargetFlags:
    """The target of a launch, the values of the flags of all targets, and the names of those of each target."""

    target: str
    values: Mapping[str, Any]
    of_targets: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class _Made:
    """`--target`, the flags of targets that need no platform, and those of the others, as parameters of Click."""

    choice: Any
    here: Sequence[Any]
    elsewhere: Sequence[Any]
    of_targets: Mapping[str, Sequence[str]]


class LaunchCommand(TyperCommand):
    """`trainway launch` with `--target` and the flags of all targets. The context's `obj` is their TargetFlags."""

    made: _Made | None = None

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters in the order of the help page, with targets that need no platform before the others."""
        job, *own = super().get_params(ctx)
        if self.made is None:
            self.made = _make([each.name for each in own])
        made = self.made
        on_platform = [each for each in own if getattr(each, "rich_help_panel", None) == ON_PLATFORM]
        common = [each for each in own if each not in on_platform]
        return [job, made.choice, *common, *made.here, *on_platform, *made.elsewhere]

    def invoke(self, ctx: Any) -> Any:
        """Call the command with its own parameters, and the context's `obj` with those of the targets."""
        assert self.made is not None  # the parameters were read before
        values = {each.name: ctx.params.pop(each.name) for each in (*self.made.here, *self.made.elsewhere)}
        ctx.obj = TargetFlags(ctx.params.pop("target"), values, self.made.of_targets)
        return super().invoke(ctx)


def _make(taken: Sequence[str]) -> _Made:
    """Return `--target` and the flags of all targets.

    Raises UsageError for a flag of a target that has the name of one that every target has.
    """
    from trainway.launch.target.options import options_of_targets

    targets = options_of_targets()
    flags: dict[str, tuple[AnyTarget, Declared]] = {}
    for target, options in targets:
        for declared in options:
            if declared.name in (*taken, "target"):
                raise usage_error(
                    f"the target {target.name} cannot have an option {declared.name}",
                    why="`trainway launch` has an option of that name for all targets",
                    fix=f"name the flag of {target.options.__qualname__}.{declared.field} differently",
                )
            flags.setdefault(declared.name, (target, declared))
    choice: Any = Annotated[Literal[tuple(each.name for each, _ in targets)], typer.Option(help="Where the job runs.")]
    choices = inspect.Parameter("target", inspect.Parameter.KEYWORD_ONLY, default="local", annotation=choice)
    here = [name for name, (target, _) in flags.items() if not target.orchestrators]
    elsewhere = [name for name in flags if name not in here]
    choice, *made_here = _made_by_typer([choices, *(_parameter(*flags[name]) for name in here)])
    made_elsewhere = _made_by_typer([_parameter(*flags[name]) for name in elsewhere])
    of_targets = {target.name: [each.name for each in options] for target, options in targets}
    return _Made(choice, made_here, made_elsewhere, of_targets)


def _parameter(target: AnyTarget, declared: Declared) -> inspect.Parameter:
    """Return an option as a parameter of a function, as Typer reads it."""
    flag, is_path = declared.flag, declared.path is not None
    described = typer.Option(
        help=flag.help,
        metavar=flag.metavar,
        min=flag.least,
        rich_help_panel=target.heading,
        # A help text that names the default itself does so in better words. A switch is off unless it is said.
        show_default="Default:" not in flag.help and declared.default is not False,
    )
    default = str(declared.default) if is_path and declared.default is not None else declared.default
    annotation: Any = Annotated[str | None if is_path else declared.kind, described]
    return inspect.Parameter(declared.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _made_by_typer(parameters: list[inspect.Parameter]) -> list[Any]:
    """Return what Typer makes of the parameters of a function."""

    def function(**_: Any) -> None:
        """Give the function these parameters, from which typer makes flags."""

    app = typer.Typer(add_completion=False)
    app.command()(with_parameters(function, parameters))
    return [each for each in typer.main.get_command(app).params if each.name != "help"]
