"""Leave the launcher's own files out of a document that a person reads. One line stands for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainway.launch.program.program import launcher_files


def without_launcher_files(document: str, block_of: Callable[[str, str], str], indent: str = "") -> str:
    """Return a rendered document with one line in the place of the files that the launcher sends with any program.

    `block_of` returns the lines of a file in the document, by the file's name and text. The line is a comment with the
    numbers of files and of lines, after `indent`. A document without such files is returned as it is.
    """
    blocks = {block_of(name, text): text for name, text in _texts().items()}
    found = {block: text for block, text in blocks.items() if block in document}
    if not found:
        return document
    first, *others = sorted(found, key=document.index)
    for block in others:
        document = document.replace(block, "", 1)
    lines = sum(len(text.splitlines()) for text in found.values())
    files = f"{len(found)} file{'' if len(found) == 1 else 's'}"
    said = f"# Left out: {files} of Trainway with {lines:,} lines, which every node gets. --full prints them."
    return document.replace(first, f"{indent}{said}\n", 1)


def _texts() -> Mapping[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in launcher_files()}
