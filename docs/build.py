"""`make docs`: build the site of docs/ in build/site. A broken link or anchor, or a page outside the nav, is an error.

The pages are written for GitHub, where a link can lead to any file of the repository. The site has only pages. This
program therefore copies the pages to build/docs, together with a page for each other file or directory of the
repository that a page links to. Zensical then builds the site from the copy, and checks links between pages and their
anchors. Neither the build nor the pages fetch anything from a network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONFIGURATION = "zensical.toml"
# The folder of the site for files of the repository that are not pages of docs/.
REPOSITORY = "repository"
MERMAID = Path("node_modules", "@mermaid-js", "tiny", "dist", "mermaid.tiny.js")

_FENCED = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}).*?^ *(?P=fence)[`~]*\s*?$", re.MULTILINE | re.DOTALL)
# Matches inline code, which contains no links, or the target of a link.
_LINK = re.compile(r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|(?<=\]\()(?P<target>[^()\s]+)(?=\))", re.DOTALL)
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_LANGUAGES = {".json": "json", ".py": "python", ".sh": "bash", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


class BrokenError(Exception):
    """Problems of the pages, one on each line."""


@dataclass
class _Copy:
    """The copy of the pages of a repository, and the problems of the pages."""

    root: Path
    to: Path
    problems: list[str] = field(default_factory=list)
    copied: set[Path] = field(default_factory=set)

    def page(self, source: Path) -> None:
        """Copy a page of Markdown, and everything that it links to."""
        if source in self.copied:
            return
        self.copied.add(source)
        text = _with_four_spaces(source.read_text(encoding="utf-8"))
        written = self._with_links(source, text)
        if "```mermaid" in text:
            script = os.path.relpath(self.to / "assets" / MERMAID.name, self.place(source).parent)
            # Without this script, the theme fetches the program that draws diagrams from a server.
            written += f'\n<script src="{script}"></script>\n'
        if not source.is_relative_to(self.root / "docs"):
            written = _not_searched(written)
        _write(self.place(source), written)

    def place(self, source: Path) -> Path:
        """Return the page of the copy that shows a file or directory of the repository."""
        if source.is_relative_to(self.root / "docs") and not source.is_dir():
            return self.to / source.relative_to(self.root / "docs")
        # Zensical leaves out files and folders whose names begin with a dot, such as .github.
        inside = self.to.joinpath(REPOSITORY, *(part.lstrip(".") for part in source.relative_to(self.root).parts))
        if source.is_dir():
            return inside / "README.md"
        return inside if source.suffix == ".md" else inside.with_name(f"{inside.name}.md")

    def _with_links(self, source: Path, text: str) -> str:
        """Return the text with each link to a file of the repository as a link to the page that shows it."""
        parts, end = [], 0
        for code in _FENCED.finditer(text):
            parts += [self._linked(source, text[end : code.start()]), code[0]]
            end = code.end()
        return "".join([*parts, self._linked(source, text[end:])])

    def _linked(self, source: Path, text: str) -> str:
        return _LINK.sub(lambda found: self._target(source, found["target"]) if found["target"] else found[0], text)

    def _target(self, source: Path, target: str) -> str:
        if re.match(r"https?://|mailto:|#", target):
            return target
        path, _, anchor = target.partition("#")
        file = Path(os.path.normpath(source.parent / path))
        if not file.is_relative_to(self.root) or not file.exists():
            self.problems.append(f"{source.relative_to(self.root)}: the link {target} leads to no file")
            return target
        self._show(file)
        place = os.path.relpath(self.place(file), self.place(source).parent)
        return f"{place}#{anchor}" if anchor else place

    def _show(self, file: Path) -> None:
        """Copy a page that shows a file or directory. `copy_pages` already copies the pages of docs/."""
        if file in self.copied or (file.is_relative_to(self.root / "docs") and file.suffix == ".md"):
            return
        if file.suffix == ".md":
            self.page(file)
            return
        self.copied.add(file)
        if file.is_relative_to(self.root / "docs") and file.is_file():
            self.place(file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, self.place(file))
        else:
            _write(self.place(file), _not_searched(self._shown(file)))

    def _shown(self, file: Path) -> str:
        name = file.relative_to(self.root)
        if file.is_dir():
            names = sorted(f"{each.name}/" if each.is_dir() else each.name for each in file.iterdir())
            listed = "".join(f"- `{each}`\n" for each in names if not each.startswith(("__pycache__", ".")))
            return f"# {name}/\n\n{listed}"
        text = file.read_text(encoding="utf-8")
        fence = "`" * (1 + max((len(ticks) for ticks in re.findall("`+", text)), default=2))
        return f"# {name}\n\n{max(fence, '```')}{_LANGUAGES.get(file.suffix, 'text')}\n{text}\n{max(fence, '```')}\n"


def _with_four_spaces(text: str) -> str:
    """Return the text with the contents of numbered lists indented by at least four spaces.

    GitHub requires only three spaces, the width of the number with its dot. Python-Markdown, which Zensical uses,
    requires four.
    """
    lines, in_item, in_code = list[str](), False, False
    for line in text.split("\n"):
        starts = re.match(r"\d+\. ", line) and not in_code
        in_item = bool(starts) or (in_item and (not line.strip() or line.startswith("   ")))
        if not in_item and line.startswith("```"):
            in_code = not in_code
        lines.append(f" {line}" if in_item and not starts and line.strip() else line)
    return "\n".join(lines)


def _not_searched(text: str) -> str:
    return f"---\nsearch:\n  exclude: true\n---\n{text}"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _pages_of(nav: Any) -> Iterator[str]:
    """Yield the pages of a nav, in its order."""
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from _pages_of(each)


def copy_pages(root: Path, build: Path) -> None:
    """Copy the pages of the repository `root` to `build`/docs, as Zensical reads them.

    Raises BrokenError if the nav does not have every page once, or if a link leads to no file of the repository.
    """
    docs = root / "docs"
    shutil.rmtree(build / "docs", ignore_errors=True)
    copy = _Copy(root, build / "docs")
    pages = sorted(docs.rglob("*.md"))
    listed = list(_pages_of(tomllib.loads((docs / CONFIGURATION).read_text(encoding="utf-8"))["project"]["nav"]))
    names = [page.relative_to(docs).as_posix() for page in pages]
    copy.problems += [f"docs/{name} is not in the nav of docs/{CONFIGURATION}" for name in names if name not in listed]
    copy.problems += [
        f"docs/{CONFIGURATION}: the nav has {name}, which is not a page" for name in listed if name not in names
    ]
    twice = {name for name in listed if listed.count(name) > 1}
    copy.problems += [f"docs/{CONFIGURATION}: the nav has {name} twice" for name in sorted(twice)]
    for page in pages:
        copy.page(page)
    if copy.problems:
        raise BrokenError("\n".join(copy.problems))
    (build / "docs" / "assets").mkdir()
    shutil.copy(ROOT / MERMAID, build / "docs" / "assets")
    shutil.copy(docs / CONFIGURATION, build)


def build_site(root: Path, build: Path) -> Path:
    """Build the site of the repository `root` into `build`/site, and return its folder.

    Raises BrokenError with the problems that `copy_pages` or Zensical finds.
    """
    copy_pages(root, build)
    command: list[str | Path] = [
        Path(sys.executable).with_name("zensical"),
        "build",
        "--strict",
        "--clean",
        "--config-file",
        CONFIGURATION,
    ]
    built = subprocess.run(
        command,
        cwd=build,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if built.returncode:
        # The traceback of Zensical has no further information for a writer of pages.
        raise BrokenError(_COLORS.sub("", built.stdout.partition("Traceback")[0]).strip())
    return build / "site"


if __name__ == "__main__":
    try:
        print(build_site(ROOT, ROOT / "build"))
    except BrokenError as error:
        sys.exit(f"{error}\nThe site is not built.")
