"""Synthesize a platform's app with the changes of the module that `extend` names."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import cx_api

from stacks.platform import add_stacks
from trainway.spec.errors import usage_error
from trainway.spec.extension import EXTENDED_FILE, Extension
from trainway.spec.platform import Platform

# Prefix of the file and line of an Aspect's error.
LINE: Final = "in an Aspect at "


def synthesize(app: cdk.App, platform: Platform) -> cx_api.CloudAssembly:
    """Add the platform's stacks to an app, let its extension change them, and return the cloud assembly.

    The assembly of an extended platform has the file `extended.json`: the extension's file, and by stack and logical
    id whether a resource was added, changed, or removed by it. Raises UsageError for an error in the extension.
    """
    extension = platform.extension
    if extension is None:
        add_stacks(app, platform)
        return app.synth()
    with _blames(extension):
        module = _load(extension)
    stacks = add_stacks(app, platform)
    plain = _templates(app.synth(skip_validation=True))
    with _blames(extension):
        module.extend(app, platform, stacks)
        assembly = app.synth(force=True)
    changes = {"file": str(extension.file), "stacks": _changes(plain, _templates(assembly))}
    (Path(app.outdir) / EXTENDED_FILE).write_text(json.dumps(changes, indent=1, sort_keys=True) + "\n", "utf-8")
    return assembly


def _templates(assembly: cx_api.CloudAssembly) -> dict[str, dict[str, Any]]:
    return {stack.stack_name: stack.template for stack in assembly.stacks}


def _changes(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return `added`, `changed`, or `removed` for each resource that differs, by stack and logical id."""
    found: dict[str, dict[str, str]] = {}
    for stack in sorted(before.keys() | after.keys()):
        old, new = (each.get(stack, {}).get("Resources", {}) for each in (before, after))
        words = {name: _word(old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())}
        if differing := {name: word for name, word in words.items() if word}:
            found[stack] = differing
    return found


def _word(old: object, new: object) -> str | None:
    if old == new:
        return None
    return "added" if old is None else "removed" if new is None else "changed"


def _load(extension: Extension) -> Any:
    """Import the extension, and return the module. Files beside it can be imported, after all other modules."""
    file, name = extension.file, extension.module
    if name is None:
        sys.path.append(str(file.parent))
        spec = importlib.util.spec_from_file_location("trainway_extension", file)
        assert spec and spec.loader, file
        module = importlib.util.module_from_spec(spec)
        # jsii finds the classes of a module by its name.
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        levels = name.count(".") + (file.name == "__init__.py")
        sys.path.append(str(file.parents[levels]))
        module = importlib.import_module(name)
    _name_lines(module)
    return module


def _name_lines(module: ModuleType) -> None:
    """Let the module's Aspects add their line to an error, because only the error's message passes through the CDK."""
    for each in vars(module).values():
        if isinstance(each, type) and each.__module__ == module.__name__ and "visit" in vars(each):
            each.visit = _with_line(each.visit)  # type: ignore[attr-defined]


def _with_line(visit: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    @functools.wraps(visit)
    def visit_with_line(self: Any, node: Any) -> None:
        try:
            visit(self, node)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[1]
            raise RuntimeError(f"{LINE}{frame.filename}:{frame.lineno}: {_message(error)}") from error

    return visit_with_line


@contextmanager
def _blames(extension: Extension) -> Iterator[None]:
    """Turn an error of a block into a UsageError that names the extension's line."""
    try:
        yield
    except Exception as error:
        where, why = _line(error, extension), _message(error)
        if LINE in why:
            where, _, why = why.partition(LINE)[2].partition(": ")
        raise usage_error(f"{where}: the extension failed", why=why, fix="correct the extension") from None


def _line(error: Exception, extension: Extension) -> str:
    """Return the file and line of the last frame in the extension or a file beside it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    ours, beside = Path(__file__).parent, extension.file.parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename).resolve()
        if file.is_relative_to(beside) and not file.is_relative_to(ours) and "site-packages" not in file.parts:
            return f"{frame.filename}:{frame.lineno}"
    return str(extension.file)


def _message(error: Exception) -> str:
    """Return an error in one line. The CDK adds the stack of its JavaScript below the message."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]
