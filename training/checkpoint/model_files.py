"""Files of a model that belong to its weights without being weights: its configuration and its chat template.

An import from transformers puts them beside the checkpoint. A run that starts from weights copies them beside its own,
and an export returns them.
"""

from training.hosts import location_files

FOLDER = "model-files"
NAMES = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
)
"""Files of a directory of transformers that describe how to use a model."""


def write(checkpoints: str, files: dict[str, bytes]) -> None:
    """Write files, by name, beside the checkpoints at a resolved location."""
    for name, content in files.items():
        location_files.write(location_files.join(checkpoints, FOLDER, name), content)


def read(source: str) -> dict[str, bytes]:
    """Return the files, by name, that are beside checkpoints, or beside the one checkpoint that `source` is."""
    above, _, name = source.rpartition("/")
    checkpoints = above if name.startswith("step-") else source
    found = {name: location_files.read(location_files.join(checkpoints, FOLDER, name)) for name in NAMES}
    return {name: content for name, content in found.items() if content is not None}
