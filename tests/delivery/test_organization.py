"""Stages and image builds in an organization's network: real clients, a real proxy, and an authority of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.container import stand_ins
from tests.delivery.organization import Organization, organization

ROOT = Path(__file__).resolve().parents[2]
# Each fetches a file of the server, or the package `tool` of its index.
CLIENTS = {
    "curl": "curl --fail --silent --show-error --output /dev/null {url}/file",
    "python": "python3 -c \"import urllib.request as u; u.urlopen('{url}/file').read()\"",
    "requests": "python3 -c \"import requests; requests.get('{url}/file').raise_for_status()\"",
    "pip": "pip download --quiet --no-cache-dir --dest {work} --index-url {url}/simple tool",
    "git": "git ls-remote {url}/repository.git",
    "apt": "{apt} update",
}


@pytest.fixture(scope="module")
def corp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Organization]:
    site = tmp_path_factory.mktemp("site")
    (site / "file").write_text("file\n")
    package = stand_ins.wheel(site / "simple", "tool", "1.0", {"tool.py": ""})
    (package.parent / "index.html").write_text(f'<a href="{package.name}">{package.name}</a>')
    repository = site / "repository.git"
    subprocess.run(["git", "init", "--quiet", "--bare", repository], check=True)
    subprocess.run(["git", "-C", repository, "update-server-info"], check=True)
    (site / "apt").mkdir()
    (site / "apt/Packages").write_text("")
    (site / "apt/Release").write_text("Suite: corp\n")
    with organization(site, tmp_path_factory.mktemp("authority")) as made:
        yield made


def trusts(workshop: Any, corp: Organization) -> None:
    shutil.copy(corp.certificate, workshop.root / "lifecycle_scripts/yours/certificates")


def proxied(corp: Organization) -> dict[str, str]:
    return {"HTTPS_PROXY": corp.proxy, "HTTP_PROXY": corp.proxy, "NO_PROXY": "localhost"}


def stage(workshop: Any, corp: Organization, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a stage that trusts the organization and then runs a command."""
    work = workshop.root / "fetched"
    lists = work / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    (work / "sources").write_text(f"deb [trusted=yes] {corp.url}/apt ./\n")
    options = ("Dir::Etc::SourceParts=/dev/null", "APT::Sandbox::User=root", "APT::Update::Error-Mode=any")
    places = (f"Dir::State::Lists={lists}", f"Dir::Etc::SourceList={work}/sources", f"Dir::Cache={work}")
    apt = " ".join(["apt-get", *(f"-o {option}" for option in (*options, *places, "Acquire::Retries=0"))])
    script = workshop.root / "delivery/scripts.sh"
    begin = 'here=$(cd "$(dirname "$0")" && pwd); source "$here/lib.sh"; source "$here/organization/network.sh"'
    filled = command.format(url=corp.url, work=work, apt=apt)
    script.write_text(f'set -euo pipefail\n{begin}\ntrust_organization "$here"\n{filled}\n')
    done: subprocess.CompletedProcess[str] = workshop.run("stage.sh", "scripts", HOME=str(workshop.root), **variables)
    return done


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reaches_the_organizations_server_through_its_proxy(workshop: Any, corp: Organization, client: str):
    trusts(workshop, corp)
    corp.connected.clear()
    done = stage(workshop, corp, CLIENTS[client], **proxied(corp))
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(corp.connected) == {"packages.corp.invalid:443"}


@pytest.mark.parametrize("client", CLIENTS)
def test_without_the_authority_the_stage_ends_with_the_place_for_it(workshop: Any, corp: Organization, client: str):
    done = stage(workshop, corp, CLIENTS[client], **proxied(corp))
    assert done.returncode != 0
    assert "put the authority's certificate into lifecycle_scripts/yours/certificates" in done.stdout + done.stderr


def test_a_proxy_that_does_not_answer_is_named_by_its_key(workshop: Any, corp: Organization):
    trusts(workshop, corp)
    nobody = {"HTTPS_PROXY": "http://nobody.corp.invalid:3128"}
    done = stage(workshop, corp, CLIENTS["curl"], **nobody)
    assert done.returncode != 0
    assert "the proxy of network.proxy does not answer or refuses" in done.stdout + done.stderr


def test_a_certificate_that_is_none_ends_the_stage_for_good(workshop: Any, corp: Organization):
    (workshop.root / "lifecycle_scripts/yours/certificates/a.pem").write_text("nothing\n")
    done = stage(workshop, corp, "true")
    assert done.returncode == 78
    assert "nobody would trust these certificates" in done.stdout + done.stderr
