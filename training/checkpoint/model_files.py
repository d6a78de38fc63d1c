"""Files of a model beside its weights, such as its configuration and its chat templates.

An import from transformers puts them beside the checkpoint. A run that starts from weights copies them beside its own,
and an export returns them.
"""

from pathlib import Path, PurePosixPath

from training.hosts import location_files

FOLDER = "model-files"
NAMES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
)
"""Files in a model directory of transformers that describe how to use the model.

`tokenizer.json` is not among them, because an export takes it from the data.
"""
TEMPLATES = "additional_chat_templates"
"""Folder of the named chat templates.

https://github.com/huggingface/transformers/blob/v5.18.0/src/transformers/utils/hub.py, `CHAT_TEMPLATE_DIR` (read
2026-11-26)
"""


def find(directory: Path) -> dict[str, bytes]:
    """Return the files in a model directory of transformers, by name."""
    paths = [directory / name for name in NAMES] + sorted((directory / TEMPLATES).glob("*.jinja"))
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths if path.is_file()}


def write(checkpoints: str, files: dict[str, bytes]) -> None:
    """Write files, by name, beside the checkpoints at a resolved location."""
    for name, content in files.items():
        location_files.write(location_files.join(checkpoints, FOLDER, name), content)


def read(source: str) -> dict[str, bytes]:
    """Return the files, by name, that are beside checkpoints, or beside the one checkpoint that `source` is."""
    above, _, name = source.rpartition("/")
    folder = location_files.join(above if name.startswith("step-") else source, FOLDER)
    # A process that was killed may have left unfinished files.
    names = [name for name in location_files.list_files(folder) if _is_complete(name)]
    found = {name: location_files.read(location_files.join(folder, name)) for name in names}
    return {name: content for name, content in found.items() if content is not None}


def _is_complete(name: str) -> bool:
    path = PurePosixPath(name)
    return name in NAMES or (path.parent == PurePosixPath(TEMPLATES) and path.suffix == ".jinja")
