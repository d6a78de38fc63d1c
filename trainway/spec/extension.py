"""Finding the Python module that `extend` names, without importing it."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from hashlib import sha256
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

SIGNATURE: Final = "def extend(app, platform, stacks):"
# In the cloud assembly, beside the manifest: what the extension added, changed, and removed.
EXTENDED_FILE: Final = "extended.json"


@dataclass(frozen=True)
class Extension:
    """A module of the user's: its file, its dotted name, and the SHA-256 of the file.

    The name is None where the platform file gives a path.
    """

    file: Path
    module: str | None
    sha256: str


class ExtensionError(Exception):
    """No extension can be loaded from what the platform file names: `reason` and `remedy` of the problem."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


def find_extension(name: str, folder: Path) -> Extension:
    """Return the extension that a platform file in `folder` names.

    `name` is a path relative to the folder if it ends in .py, and otherwise a module of this Python or of the folder.
    Raises ExtensionError if there is no such module, or none with the function `extend`.
    """
    if name.endswith(".py"):
        file, module = folder / name, None
        if not file.is_file():
            raise ExtensionError(f"there is no file {file}", "correct the path, which is relative to the platform file")
    else:
        file, module = _file_of_module(name, folder), name
    try:
        source = file.read_bytes()
        tree = ast.parse(source, str(file))
    except SyntaxError as error:
        reason = f"{file}:{error.lineno}: it is not valid Python: {error.msg}"
        raise ExtensionError(reason, "correct the syntax at this line") from None
    except (OSError, ValueError) as error:
        raise ExtensionError(f"{file} cannot be read: {error}", "it must be a readable UTF-8 text file") from None
    _require_extend(file, tree)
    return Extension(file.resolve(), module, sha256(source).hexdigest())


def _file_of_module(name: str, folder: Path) -> Path:
    """Return the file of a module. importlib's `find_spec` would import the packages that the module is in."""
    path: list[str] | None = [*sys.path, str(folder.resolve())]
    spec = None
    for number, _ in enumerate(parts := name.split("."), start=1):
        spec = PathFinder.find_spec(".".join(parts[:number]), path) if path is not None else None
        path = list(spec.submodule_search_locations or ()) or None if spec else None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        remedy = "install it into the environment of Trainway, or write the path of a file, for example extensions.py"
        raise ExtensionError(f"this Python has no module {name}, and neither has {folder.resolve()}", remedy)
    return Path(spec.origin)


def _require_extend(file: Path, tree: ast.Module) -> None:
    """Raise ExtensionError unless the module defines or imports a function `extend` of three arguments."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "extend":
            positional = [*node.args.posonlyargs, *node.args.args]
            required = len(positional) - len(node.args.defaults)
            if required > 3 or (len(positional) < 3 and not node.args.vararg):
                reason = f"{file}:{node.lineno}: extend takes other arguments than app, platform, and stacks"
                raise ExtensionError(reason, f"write `{SIGNATURE}`")
            return
        if isinstance(node, ast.ImportFrom) and "extend" in {each.asname or each.name for each in node.names}:
            return
    raise ExtensionError(f"{file} has no function extend", f"write `{SIGNATURE}` in it")
