"""A chart is read from where it is published, or from an archive that somebody copied here."""

from __future__ import annotations

import functools
import hashlib
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.delivery.lock_internet import QuietHandler
from tests.kubernetes_tools import tool
from tests.seams.charts import pull as pulling
from tests.seams.charts.pull import pull

VERSION = "9.9.9"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A chart that is not packed."""
    chart = tmp_path / "source" / "small"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": "small", "version": VERSION}))
    (chart / "values.yaml").write_text("answer: 42\n")
    return chart


@pytest.fixture
def served(source: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a repository that has the chart."""
    repository = tmp_path / "repository"
    for words in (["package", str(source), "--destination", str(repository)], ["repo", "index", str(repository)]):
        subprocess.run([tool("helm"), *words], check=True, capture_output=True)
    handler = functools.partial(QuietHandler, directory=str(repository))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def entry(**origin: Any) -> dict[str, Any]:
    return {"chart": "small", "version": VERSION, **origin}


def pulled(of: dict[str, Any], tmp_path: Path) -> Path:
    into = tmp_path / "into"
    into.mkdir()
    pull(of, tmp_path / "archives", into)
    return into


def test_a_chart_of_a_repository_is_unpacked(served: str, tmp_path: Path) -> None:
    assert (pulled(entry(repository=served), tmp_path) / "small/values.yaml").read_text() == "answer: 42\n"


def test_a_chart_of_a_commit_gets_the_version_of_the_list(source: Path, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        command = ["git", "-C", str(source.parent), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    git("add", ".")
    git("commit", "--message", "Add the chart")
    origin = {"url": str(source.parent), "commit": git("rev-parse", "HEAD"), "directory": "small"}
    into = pulled(entry(git=origin) | {"version": "9.9.9-abc"}, tmp_path)
    assert yaml.safe_load((into / "small/Chart.yaml").read_text())["version"] == "9.9.9-abc"


def test_a_manifest_is_fetched(served: str, tmp_path: Path) -> None:
    (tmp_path / "repository/manifest.yaml").write_text("kind: List\n")
    into = pulled(entry(manifest={"url": f"{served}/manifest.yaml"}), tmp_path)
    assert (into / "small.yaml").read_text() == "kind: List\n"


def test_an_archive_that_was_copied_here_takes_the_place_of_the_published_one(source: Path, tmp_path: Path) -> None:
    nowhere = entry(repository="http://127.0.0.1:1")
    archive = tmp_path / "archives" / f"small-{VERSION}.tgz"
    with pytest.raises(SystemExit, match=f"small {VERSION} cannot be read: .* copy it to {archive}"):
        pull(nowhere, archive.parent, tmp_path)
    subprocess.run([tool("helm"), "package", source, "--destination", archive.parent], check=True, capture_output=True)
    assert (pulled(nowhere, tmp_path) / "small/Chart.yaml").exists()


def test_an_archive_with_another_checksum_than_the_pinned_one_is_refused(
    served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = entry(repository=served)
    published = hashlib.sha256((tmp_path / f"repository/small-{VERSION}.tgz").read_bytes()).hexdigest()
    for sha256 in (published, 64 * "0"):
        locked = {"charts": {"small": {"version": VERSION, "sha256": sha256}}}
        monkeypatch.setattr(pulling, "read_lock", lambda locked=locked: locked)
        if sha256 == published:
            pull(of, tmp_path / "archives", tmp_path)
        else:
            with pytest.raises(SystemExit, match="does not have the SHA-256"):
                pull(of, tmp_path / "archives", tmp_path)
