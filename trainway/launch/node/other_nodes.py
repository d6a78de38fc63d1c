"""What the nodes of a program tell each other about a hang, by files in the directory of the attempt.

The node with rank 0 asks whether the others work, and tells them that the program hangs. Nodes without a common
directory hear nothing, and do not answer.
"""

import contextlib
from pathlib import Path

_MOST_CHARACTERS = 300


class OtherNodes:
    """The other nodes of a program, as the node of a rank hears of them.

    `told` is the file by which one node tells that the program hangs. The other files are beside it. An earlier
    attempt can have left files, because each node counts its own attempts. So only files that are new or written again
    say something.
    """

    def __init__(self, told: Path, rank: int) -> None:
        self._told, self._question, self._answer = told, told.with_name("silent"), told.with_name(f"works-{rank}")
        self._told_before, self._asked_before = _version(self._told), _version(self._question)
        self._answers_before = self._answers()

    def work(self) -> bool:
        """Return whether another node has answered that it works since the last call, and ask again."""
        before, self._answers_before = self._answers_before, self._answers()
        _write(self._question, "")
        return bool(self._answers_before - before)

    def have_asked(self) -> bool:
        """Return whether a node has asked since the last call."""
        before, self._asked_before = self._asked_before, _version(self._question)
        return self._asked_before not in (None, before)

    def answer(self) -> None:
        """Answer that this node works."""
        _write(self._answer, "")

    def tell(self, why: str) -> bool:
        """Tell why the program hangs. Return whether that could be written."""
        return _write(self._told, why)

    def hang(self) -> "str | None":
        """Return why the program hangs, if another node has told it."""
        if _version(self._told) in (None, self._told_before):
            return None
        with contextlib.suppress(OSError, ValueError):
            return self._told.read_text(encoding="utf-8").partition("\n")[0][:_MOST_CHARACTERS] or None
        return None

    def _answers(self) -> "set[tuple[str, int | None]]":
        with contextlib.suppress(OSError):
            return {(file.name, _version(file)) for file in self._told.parent.glob("works-*")}
        return set()


def _version(file: Path) -> "int | None":
    with contextlib.suppress(OSError):
        return file.stat().st_mtime_ns
    return None


def _write(file: Path, text: str) -> bool:
    with contextlib.suppress(OSError):
        file.write_text(text, encoding="utf-8")
        return True
    return False
