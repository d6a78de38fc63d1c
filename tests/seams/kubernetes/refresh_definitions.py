"""Take the definitions of newer charts into definitions.yaml: `python -m tests.seams.kubernetes.refresh_definitions`.

A project whose chart or image delivery/mirror.yaml has in another minor version than `revision` gets that version as
its tag, and the checksums of the definitions there. Projects at a commit stay, because no version says what is newer.
Exit status: 0 if everything was read, 1 if a definition was not.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import yaml

from delivery.mirror_list import read_list
from tests.seams.kubernetes import definitions as published
from tests.seams.kubernetes.definitions import DATA, Definition, Missing

# The project of each chart, or of an image where a chart of others brings the definitions.
CHARTS = {"kubeflow/trainer": "kubeflow-trainer", "kai-scheduler/KAI-Scheduler": "kai-scheduler"}
IMAGES = {"kubernetes-sigs/jobset": "jobset"}


def wanted() -> dict[str, str]:
    """Return the tag of each project that delivery/mirror.yaml installs."""
    mirror = read_list()
    charts = {each["chart"]: str(each["version"]) for each in mirror["charts"]}
    images = {each["name"]: str(each["tag"]) for each in mirror["images"]}
    found = {project: charts[name] for project, name in CHARTS.items()}
    found |= {project: images[name] for project, name in IMAGES.items()}
    return {project: f"v{version.removeprefix('v')}" for project, version in found.items()}


def refreshed(text: str, project: str, before: str, after: str) -> str:
    """Return the text of definitions.yaml with the definitions of another tag of a project. Raises Missing."""
    begin = text.index(f"  {project}:\n")
    end = next((match.start() for match in re.finditer(r"^  \S+/\S+:$", text[begin + 3 :], re.MULTILINE)), None)
    part = text[begin:] if end is None else text[begin : begin + 3 + end]
    changed = part.replace(f"revision: {before}\n", f"revision: {after}\n")
    for each in published.definitions().values():
        if f"/{project}/" in each.source:
            changed = changed.replace(each.sha256, _checksum(each, before, after))
    return text.replace(part, changed)


def main() -> int:
    """Run the command, and return its exit status."""
    status, text = 0, DATA.read_text(encoding="utf-8")
    for project, tag in wanted().items():
        revision = str(yaml.safe_load(text)["projects"][project]["revision"])
        # A chart of a later patch can have the definitions of an earlier one, whose tag is in the file.
        if revision == tag or revision.rpartition(".")[0] == tag.rpartition(".")[0]:
            continue
        try:
            text = refreshed(text, project, revision, tag)
            print(f"{project}: {revision} -> {tag}")
        except (Missing, KeyError, yaml.YAMLError) as error:
            print(f"{project} {tag}: not read: {error}")
            status = 1
    DATA.write_text(text, encoding="utf-8")
    return status


def _checksum(definition: Definition, before: str, after: str) -> str:
    """Return the checksum of a definition in another revision."""
    with tempfile.TemporaryDirectory() as folder:
        file = published.fetch(definition.source.replace(f"/{before}/", f"/{after}/"), Path(folder) / "definition.yaml")
        return published.checksum(yaml.safe_load(file.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
