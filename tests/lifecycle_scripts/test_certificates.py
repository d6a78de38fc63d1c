"""The organization's authorities: what is refused before a node exists, and what a node then trusts."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lifecycle_scripts.certificates import CertificateError, certificates, install
from tests.lifecycle_scripts.authorities import authority, signed
from tests.lifecycle_scripts.nodes import DOWNLOADED, SCRIPTS, Lab, Node, missing, nodes
from tests.lifecycle_scripts.steps import run_step

WHY_NOT = missing()
on_nodes = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An organization's authority."""
    return authority(tmp_path_factory.mktemp("authority"))


def test_several_in_a_file_and_several_files_are_one_list(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "certificates"
    other = authority(tmp_path, "Other Root")
    source.mkdir()
    (source / "both.crt").write_text(f"# of the organization\n{root.read_text()}\n{other.read_text()}")
    (source / "again.pem").write_text(root.read_text())
    (source / "README.md").write_text("What goes here.")
    wanted = {ssl.PEM_cert_to_DER_cert(path.read_text()) for path in (root, other)}
    assert set(certificates(source)) == wanted
    assert certificates(tmp_path / "absent") == {}
    assert certificates(SCRIPTS / "yours" / "certificates") == {}


def wrong_file(directory: Path, root: Path, what: str) -> Path:
    """A file that is not what it should be, in a folder of its own."""
    source = directory / "certificates"
    source.mkdir()
    file = source / f"{what}.pem"
    match what:
        case "text":
            file.write_text("our proxy\n")
        case "der":
            file.write_bytes(ssl.PEM_cert_to_DER_cert(root.read_text()))
        case "damaged":
            lines = root.read_text().splitlines()
            file.write_text("\n".join([*lines[:3], *lines[4:]]))
        case "key":
            file.write_text(root.read_text() + root.with_suffix(".key").read_text())
        case "over":
            shutil.copy(authority(directory, "Past", days=-1), file)
        case "server":
            shutil.copy(signed(root, "proxy.example.com"), file)
        case "suffix":
            (source / "ca.der").write_text("")
    return source


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("text", "no certificate in PEM; if it is DER: `openssl x509 -inform der -in text.pem -out text.pem`"),
        ("der", "no certificate in PEM; if it is DER"),
        ("damaged", "certificate 1 of 1 is damaged"),
        ("key", "it has a private key"),
        ("over", "(commonName=Past) is over since"),
        ("server", "is no authority's (basicConstraints is not CA:TRUE); put in the one that signed it"),
        ("suffix", "only .crt and .pem files are certificates"),
    ],
)
def test_what_cannot_be_trusted_is_named_with_its_reason(tmp_path: Path, root: Path, what: str, says: str) -> None:
    source = wrong_file(tmp_path, root, what)
    (file,) = source.iterdir()
    with pytest.raises(CertificateError) as raised:
        certificates(source)
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{file}: ")
    assert says in line


def test_all_wrong_files_are_named_at_once(tmp_path: Path, root: Path) -> None:
    source = wrong_file(tmp_path, root, "text")
    (source / "other.crt").write_text("")
    check = [sys.executable, str(SCRIPTS / "certificates.py"), "check", str(source)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 2)


def test_the_store_is_made_equal_and_its_command_runs_when_needed(tmp_path: Path, root: Path) -> None:
    """With a command that does what both distributions' do, so that a bundle of Red Hat's kind is one as well."""
    source, target, bundle = (tmp_path / name for name in ("certificates", "anchors", "ca-bundle.crt"))
    source.mkdir()
    shutil.copy(root, source)
    command = ["sh", "-c", f"cat {target}/*.crt >{bundle} 2>/dev/null || true"]
    (made,) = install(source, target, bundle, command)
    assert made.startswith("trusts Example-Root.pem")
    assert install(source, target, bundle, ["false"]) == []
    # A run that was ended before the command, or a bundle that somebody else made anew.
    bundle.write_text("")
    assert install(source, target, bundle, command) == []
    assert bundle.read_text() == root.read_text()
    (source / root.name).unlink()
    (gone,) = install(source, target, bundle, command)
    assert gone.endswith("no more")
    assert bundle.read_text() == ""


def test_a_store_that_takes_nothing_is_told(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "certificates"
    source.mkdir()
    shutil.copy(root, source)
    with pytest.raises(CertificateError, match=r"has nothing of Example-Root.pem after sh .* \(status 3\): no room"):
        install(source, tmp_path / "anchors", tmp_path / "bundle", ["sh", "-c", "echo no room; exit 3"])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with nodes(tmp_path_factory.mktemp("certificates"), {"controller": ["ctl"]}) as running:
        yield running


# A server, and a client that trusts what the node trusts.
ASK = """
import http.server, ssl, sys, threading, urllib.request
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/root/server.pem", "/root/server.key")
server = http.server.HTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen("https://localhost:8443/", timeout=120).status)
"""


def asks(node: Node) -> subprocess.CompletedProcess[str]:
    return node.run("python3", "-c", ASK, check=False, timeout=300)


@pytest.mark.exhaustive
@on_nodes
def test_a_node_trusts_them_and_so_does_what_runs_there(lab: Lab, root: Path) -> None:
    node = lab["ctl"]
    done = run_step(node, "12-certificates")
    assert done.stdout == "there are no certificates of the organization's, nothing to do\n"
    server = signed(root, "localhost")
    node.write("/root/server.pem", server.read_text())
    node.write("/root/server.key", server.with_suffix(".key").read_text())
    assert "certificate verify failed" in asks(node).stderr
    node.write(f"{DOWNLOADED}/yours/certificates/ours.crt", root.read_text())
    done = run_step(node, "12-certificates")
    assert done.returncode == 0, done.stdout
    assert "trusts ours.crt" in done.stdout
    assert asks(node).stdout == "200\n"
    variables = node.run("su", "-", "ubuntu", "-c", "env").stdout.splitlines()
    assert {f"{name}={BUNDLE}" for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")} <= set(variables)
    before = node.snapshot(times=True)
    done = run_step(node, "12-certificates")
    assert done.stdout == "1 certificates of the organization's are trusted\n"
    assert node.snapshot(times=True) == before


@pytest.mark.exhaustive
@on_nodes
def test_what_is_taken_out_is_not_trusted_any_more(lab: Lab, root: Path) -> None:
    node = lab["ctl"]
    node.write(f"{DOWNLOADED}/yours/certificates/ours.crt", root.read_text())
    assert run_step(node, "12-certificates").returncode == 0
    (node.root / DOWNLOADED.lstrip("/") / "yours/certificates/ours.crt").unlink()
    done = run_step(node, "12-certificates")
    assert done.stdout.splitlines()[-1] == "the image's authorities are trusted, and no others any more"
    assert root.read_text().splitlines()[1] not in node.run("cat", BUNDLE).stdout
    assert not (node.root / "etc/profile.d/trainway-certificates.sh").exists()


@on_nodes
def test_a_wrong_file_ends_the_step_with_its_name(lab: Lab) -> None:
    node = lab["ctl"]
    node.write(f"{DOWNLOADED}/yours/certificates/wrong.crt", "nothing")
    try:
        done = run_step(node, "12-certificates")
        assert done.returncode == 1
        assert done.stdout.startswith("the certificates in lifecycle_scripts/yours/certificates are not trusted: ")
        assert "wrong.crt: no certificate in PEM" in done.stdout
    finally:
        (node.root / DOWNLOADED.lstrip("/") / "yours/certificates/wrong.crt").unlink()


@pytest.mark.exhaustive
@on_nodes
def test_daemons_that_read_the_store_when_they_start_do_so_again(lab: Lab, root: Path) -> None:
    """With a service of Docker's name: what matters here is when it was started."""
    node = lab["ctl"]
    node.write("/etc/systemd/system/docker.service", "[Service]\nExecStart=/usr/bin/sleep infinity\n")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", "docker")
    node.write(f"{DOWNLOADED}/yours/certificates/ours.crt", root.read_text())
    assert "restarted docker\n" in run_step(node, "12-certificates").stdout
    assert "restarted" not in run_step(node, "12-certificates").stdout
