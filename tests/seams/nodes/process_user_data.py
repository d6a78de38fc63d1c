"""Process user data as cloud-init does when a node boots, with cloud-init's own modules on PYTHONPATH.

`python process_user_data.py DIRECTORY FILE…` prints a JSON object. By file, it has the `types` of the parts, the
`warnings` that cloud-init logs, the texts of the `scripts` that it would run, in order, and all `parts` as pairs of a
type and a text. The directory is for what cloud-init writes.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from cloudinit import handlers, helpers, user_data  # type: ignore[import-not-found]
from cloudinit.handlers import boot_hook, cloud_config, shell_script  # type: ignore[import-not-found]
from cloudinit.settings import PER_INSTANCE  # type: ignore[import-not-found]


class Heard(logging.Handler):
    """Keeps what is logged as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def process(file: Path, directory: Path) -> dict[str, Any]:
    """Return what cloud-init makes of one file of user data."""
    heard = Heard()
    logging.getLogger().addHandler(heard)
    paths = helpers.Paths({"cloud_dir": str(directory), "run_dir": str(directory)})
    (directory / "instance").mkdir(parents=True)
    message = user_data.UserDataProcessor(paths).process(file.read_bytes())
    known = handlers.ContentHandlers() if hasattr(handlers, "ContentHandlers") else helpers.ContentHandlers()
    for handler in (
        shell_script.ShellScriptPartHandler(paths),
        cloud_config.CloudConfigPartHandler(paths),
        boot_hook.BootHookPartHandler(paths, None, instance_id="i-0"),
    ):
        known.register(handler)
    data = {
        "handlers": known,
        "handlerdir": str(directory / "handlers"),
        "data": None,
        "frequency": PER_INSTANCE,
        "handlercount": 0,
        "excluded": [],
    }
    handlers.walk(message, handlers.walker_callback, data=data)
    logging.getLogger().removeHandler(heard)
    leaves = [part for part in message.walk() if not part.is_multipart()]
    defects = [f"{type(each).__name__}: {each}" for part in message.walk() for each in part.defects]
    return {
        "types": [part.get_content_type() for part in leaves],
        "warnings": heard.lines + defects,
        # As runparts orders them.
        "scripts": [each.read_text() for each in sorted((directory / "instance" / "scripts").glob("*"))],
        "parts": [(part.get_content_type(), part.get_payload(decode=True).decode()) for part in leaves],
    }


if __name__ == "__main__":
    root = Path(sys.argv[1])
    print(json.dumps({file: process(Path(file), root / str(at)) for at, file in enumerate(sys.argv[2:])}))
