"""The site of docs/ has every page as GitHub shows it and fetches nothing from a network. A mistake fails its build."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.build import CONFIGURATION, MERMAID, BrokenError, build_site, copy_pages
from tests.synthesis import ROOT

DOCS = ROOT / "docs"
PAGES = [page.relative_to(DOCS) for page in sorted(DOCS.rglob("*.md"))]
STRUCTURE = ("h1", "h2", "h3", "li", "ol", "pre", "table", "tr", "ul")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(ROOT, tmp_path_factory.mktemp("build"))


def place(page: Path) -> str:
    """Return the address of a page, from the site's root."""
    return f"{page.parent if page.name == 'README.md' else page.with_suffix('')}/".removeprefix("./")


def counted(html: str) -> dict[str, int]:
    return {tag: len(re.findall(rf"<{tag}[ >]", html)) for tag in STRUCTURE}


def test_the_nav_has_every_page_and_every_link_leads_to_a_file(tmp_path: Path) -> None:
    copy_pages(ROOT, tmp_path)


@pytest.mark.exhaustive
def test_every_page_has_the_lists_tables_and_code_that_github_shows(site: Path) -> None:
    from markdown_it import MarkdownIt

    github = MarkdownIt("commonmark").enable("table")
    for page in PAGES:
        html = (site / place(page) / "index.html").read_text(encoding="utf-8")
        (article,) = re.findall(r"<article[^>]*>(.*?)</article>", html, re.DOTALL)
        assert counted(article) == counted(github.render((DOCS / page).read_text(encoding="utf-8"))), page


@pytest.mark.exhaustive
def test_the_search_finds_every_page_and_no_file_of_the_repository(site: Path) -> None:
    found = {item["location"].partition("#")[0] for item in json.loads((site / "search.json").read_text())["items"]}
    assert found == {place(page) for page in PAGES}


class Loads(HTMLParser):
    """The addresses that a browser fetches by itself to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}.get(tag)
        self.addresses += [value for name, value in attrs if name == named and value and not value.startswith("data:")]


@pytest.mark.exhaustive
def test_no_page_fetches_anything_from_a_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert len(loads.addresses) > 2
        for address in loads.addresses:
            # 404.html is shown at any address, so its own begin at the site's root.
            start = site if address.startswith("/") else page.parent
            assert (start / address.lstrip("/").partition("?")[0]).exists(), (page, address)
        if 'class="mermaid"' in page.read_text(encoding="utf-8"):
            # Without the site's copy of the program, the theme would fetch it.
            assert any(address.endswith(f"/{MERMAID.name}") for address in loads.addresses), page
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


GOOD = {
    "CONTRIBUTING.md": "# Contributing\n\n## Set up\n",
    "code/one.py": "print(1)\n",
    "docs/README.md": "# Home\n\nSee [two](two.md#the-end), [code](../code/one.py), [more](../code), and\n"
    "[set up](../CONTRIBUTING.md#set-up). `[no](link.md)`\n\n```text\n[no](link.md)\n```\n",
    "docs/two.md": "# Two\n\n1. One\n\n       a command\n\n2. Two\n\n## The end\n",
}


def write(root: Path, files: dict[str, str], nav: str = '["README.md", "two.md"]') -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    real = (DOCS / CONFIGURATION).read_text(encoding="utf-8")
    (root / "docs" / CONFIGURATION).write_text(re.sub(r"^nav = \[.*?^\]$", f"nav = {nav}", real, flags=re.M | re.S))
    return root


def test_links_to_files_of_the_repository_lead_to_pages_that_show_them(tmp_path: Path) -> None:
    built = build_site(write(tmp_path / "project", GOOD), tmp_path / "build")
    home = (built / "index.html").read_text(encoding="utf-8")
    shown = {"repository/code/one.py/": "one.py", "repository/code/": "<code>one.py</code>", "two/": "a command"}
    for address, text in shown.items():
        assert f'href="{address}' in home and text in (built / address / "index.html").read_text(encoding="utf-8")
    assert 'href="repository/CONTRIBUTING/#set-up"' in home


def test_a_link_to_the_folder_of_the_pages_leads_to_a_list_of_them(tmp_path: Path) -> None:
    text = f"{GOOD['docs/two.md']}\n[all pages](../docs)\n"
    built = build_site(write(tmp_path / "project", {**GOOD, "docs/two.md": text}), tmp_path / "build")
    assert 'href="../repository/docs/' in (built / "two/index.html").read_text(encoding="utf-8")
    assert "<code>two.md</code>" in (built / "repository/docs/index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "nav", "says"),
    [
        (
            {"docs/two.md": "# Two\n\n[x](three.md)\n\n## The end\n"},
            None,
            "docs/two.md: the link three.md leads to no file",
        ),
        ({"docs/two.md": "# Two\n\n![x](x.png)\n\n## The end\n"}, None, "docs/two.md: the link x.png leads to no file"),
        ({"docs/two.md": "# Two\n\n[x](../code/two.py)\n\n## The end\n"}, None, "../code/two.py leads to no file"),
        ({"docs/two.md": "# Two\n"}, None, "anchor does not exist"),
        ({"CONTRIBUTING.md": "# Contributing\n"}, None, "anchor does not exist"),
        ({"docs/three.md": "# Three\n"}, None, "docs/three.md is not in the nav"),
        ({}, '["README.md"]', "docs/two.md is not in the nav"),
        ({}, '["README.md", {"Two" = ["two.md", "three.md"]}]', "the nav has three.md, which is not a page"),
        ({}, '["README.md", "two.md", "two.md"]', "the nav has two.md twice"),
    ],
)
def test_a_mistake_fails_the_build(changes: dict[str, str], nav: str | None, says: str, tmp_path: Path) -> None:
    project = write(tmp_path / "project", GOOD | changes, *([nav] if nav else []))
    with pytest.raises(BrokenError, match=re.escape(says)):
        build_site(project, tmp_path / "build")
