"""The base stage's script builds an image behind a proxy, from an index with a login, which its own authority signed.

buildah takes the place of BuildKit. The Dockerfile is a short one with the shell and the secrets of the real one, on a
real Debian base, and the proxy, the index, and the certificates are real ones on loopback.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.container import stand_ins
from tests.container.builder import BASES, REGISTRY, ROOT, Builder, builds_images, image_directory, prepare, store_of
from tests.delivery.organization import Organization, organization

SECRET = "arn:aws:secretsmanager:us-west-2:111122223333:secret:index-AbCdEf"
LOGIN = {"username": "ci", "password": "p@ss%word"}
MOUNTS = "--mount=type=secret,id=authorities --mount=type=secret,id=pip"
DOCKERFILE = f"""\
ARG BASE_IMAGE
FROM scratch AS bill
COPY pyproject.toml /sbom.spdx.json
FROM ${{BASE_IMAGE}} AS libraries
ARG SOURCE_DATE_EPOCH
COPY container/layer.sh /opt/trainway/build/
SHELL ["/bin/bash", "/opt/trainway/build/layer.sh"]
RUN {MOUNTS} python3 -m venv /opt/trainway/job && /opt/trainway/job/bin/pip install --no-cache-dir tool
RUN {MOUNTS} python3 -c "import urllib.request as u; u.urlopen('https://packages.corp.invalid/file').read()"
"""


pytestmark = builds_images()


@dataclass(frozen=True)
class CorporateBuilder(Builder):
    """A builder in an organization's network."""

    corp: Organization

    def base(self, tag: str) -> subprocess.CompletedProcess[str]:
        """Run the stage `base`."""
        # A layer of an earlier build would come from no network.
        return self.run("bash", "delivery/stage.sh", "base", BASE_TAG=tag, LAYERS="false")

    def all_of(self, tag: str) -> str:
        """Return the configuration, the history, and every file of an image as text, as far as builds write."""
        name = f"{REGISTRY}/{BASES}:{tag}"
        texts = [self.must("buildah", "inspect", "--type", "image", name)]

        def read(mounted: Path) -> None:
            folders = (mounted / folder for folder in ("etc", "opt/trainway", "root", "run", "tmp"))
            files = (each for folder in folders for each in folder.rglob("*"))
            texts.extend(each.read_text(errors="replace") for each in files if each.is_file() and not each.is_symlink())

        self.must("buildah", "rm", self.container(read, name))
        return "".join(texts)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with image_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def builder(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CorporateBuilder]:
    site = tmp_path_factory.mktemp("site")
    (site / "file").write_text("file\n")
    package = stand_ins.wheel(site / "simple", "tool", "1.0", {"tool.py": ""})
    (package.parent / "index.html").write_text(f'<a href="{package.name}">{package.name}</a>')
    prepare(root, ("container", "delivery", "lifecycle_scripts"))
    (root / "container/Dockerfile").write_text(DOCKERFILE)
    (root / "pyproject.toml").write_text("")
    (root / "secret").write_text(json.dumps(LOGIN))
    with organization(site, tmp_path_factory.mktemp("authority")) as corp:
        settings = {
            "HTTPS_PROXY": corp.proxy,
            "HTTP_PROXY": corp.proxy,
            "NO_PROXY": "localhost",
            "PIP_INDEX": f"{corp.url}/simple",
            "PIP_INDEX_SECRET": SECRET,
        }
        made = CorporateBuilder(root, settings, corp)
        made.write_arguments({"BASE_IMAGE": "localhost/base:1", "SOURCE_DATE_EPOCH": "1767225600"})
        with store_of(made):
            made.commit(made.container(), "localhost/base:1")
            yield made


@pytest.mark.exhaustive
def test_a_build_passes_the_proxy_and_leaves_nothing_of_the_network_in_the_image(builder: CorporateBuilder) -> None:
    kept = builder.root / "lifecycle_scripts/yours/certificates"
    shutil.copy(builder.corp.certificate, kept)
    done = builder.base("ba5e")
    assert done.returncode == 0, done.stdout + done.stderr
    # The index got the login, and all that was fetched came through the proxy.
    assert builder.corp.logins == {f"{LOGIN['username']}:{LOGIN['password']}"}
    assert set(builder.corp.connected) == {"packages.corp.invalid:443"}
    image = builder.all_of("ba5e")
    assert "tool-1.0.dist-info" in image or "Name: tool" in image, "the files of the image were read"
    body = re.sub(r"\s", "", builder.corp.certificate.read_text().split("-----")[2])
    for secret in (builder.corp.proxy, LOGIN["password"], "p%40ss", body[:60], "index-url = "):
        assert secret not in image, secret
        assert secret not in done.stdout + done.stderr or secret == builder.corp.proxy, secret
    # The build's own address in the Dockerfile is its command's, and nothing else names the server.
    assert "packages.corp.invalid/simple" not in image


@pytest.mark.exhaustive
def test_without_the_authority_the_build_ends_with_the_place_for_its_certificate(builder: CorporateBuilder) -> None:
    for certificate in (builder.root / "lifecycle_scripts/yours/certificates").glob("*.pem"):
        certificate.unlink()
    done = builder.base("f00d")
    assert done.returncode != 0
    assert "put the authority's certificate into lifecycle_scripts/yours/certificates" in done.stdout + done.stderr


def test_every_command_of_the_real_dockerfile_that_fetches_has_the_secrets() -> None:
    text = (ROOT / "container/Dockerfile").read_text().replace("\\\n", " ")
    fetching = re.compile(
        r"\b(apt-get|pip install|install_part\.sh|beside_base\.sh|ubuntu_snapshot\.sh|efa_installer\.sh)\b"
    )
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    # The certificates' own stage comes before there is a way to trust any, and uses Ubuntu's http:// addresses.
    found = [
        line
        for stage in stages
        if " AS certificates\n" not in stage
        for line in stage.splitlines()
        if line.startswith("RUN ") and fetching.search(line)
    ]
    assert len(found) > 10
    assert [line for line in found if "--mount=type=secret,id=authorities" not in line] == []
    assert [line for line in found if "pip install" in line and "--mount=type=secret,id=pip" not in line] == []
