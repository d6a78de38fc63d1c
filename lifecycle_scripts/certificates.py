"""The organization's CA certificates: `certificates.py check SOURCE | install SOURCE TARGET BUNDLE COMMAND...`.

`check` reports every problem of the files in SOURCE. The delivery runs it before any node exists. `install` writes each
certificate to a file of its own in TARGET, a directory of the system's trust store. It runs COMMAND, which generates
BUNDLE, if a file changed or a certificate is missing in BUNDLE. Only the standard library is used, because this runs
before anything else.
"""

import base64
import hashlib
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUFFIXES = (".crt", ".pem")
BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
# A certificate that becomes valid soon may have been added early. An expired one is a mistake.
NOT_YET_SECONDS = 24 * 3600
COMMAND_SECONDS = 120


class CertificateError(Exception):
    """Every problem of the files, one per line."""


def certificates(source: Path) -> dict[bytes, Path]:
    """Return the CA certificates below `source`, each as DER, with its file. Raises `CertificateError`."""
    found: dict[bytes, Path] = {}
    wrong = []
    for path in sorted(source.glob("*")) if source.is_dir() else []:
        if path.suffix not in SUFFIXES:
            if path.name != "README.md":
                wrong.append(f"{path}: only {' and '.join(SUFFIXES)} files are certificates; rename or remove it")
            continue
        try:
            for der in _read(path):
                found.setdefault(der, path)
        except CertificateError as error:
            wrong.append(f"{path}: {error}")
    if wrong:
        raise CertificateError("\n".join(wrong))
    return found


def _read(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    blocks = list(BLOCK.finditer(text))
    if not blocks:
        raise CertificateError(
            f"no certificate in PEM; if it is DER: `openssl x509 -inform der -in {path.name} -out {path.stem}.pem`"
        )
    for number, block in enumerate(blocks, 1):
        which = f"certificate {number} of {len(blocks)}"
        if "PRIVATE KEY" in block[1]:
            raise CertificateError(
                "it has a private key, which is nobody's but the authority's; remove it, and replace it"
            )
        if block[1] != "CERTIFICATE":
            raise CertificateError(f"{which} is a {block[1]}; only CERTIFICATE can be trusted")
        yield _checked(block[0], which)


def _checked(pem: str, which: str) -> bytes:
    """Return the DER of a CA certificate that is valid now. Raises `CertificateError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        der = ssl.PEM_cert_to_DER_cert(pem)
        context.load_verify_locations(cadata=der)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"{which} is damaged: {error}") from error
    listed = context.get_ca_certs()
    if not listed:
        raise CertificateError(
            f"{which} is no authority's (basicConstraints is not CA:TRUE); put in the one that signed it"
        )
    said: dict[str, Any] = listed[0]
    subject = ", ".join(f"{key}={value}" for part in said["subject"] for key, value in part)
    if ssl.cert_time_to_seconds(said["notAfter"]) < time.time():
        raise CertificateError(f"{which} ({subject}) is over since {said['notAfter']} (notAfter); replace it")
    if ssl.cert_time_to_seconds(said["notBefore"]) > time.time() + NOT_YET_SECONDS:
        early = f"{which} ({subject}) is not valid before {said['notBefore']} (notBefore)"
        raise CertificateError(f"{early}; put it in when it is")
    return der


def name_of(der: bytes) -> str:
    """Return the file name of a certificate in the trust store."""
    return f"trainway-{hashlib.sha256(der).hexdigest()[:16]}.crt"


def in_bundle(bundle: Path) -> set[bytes]:
    """Return the certificates of the system's bundle, as DER."""
    if not bundle.exists():
        return set()
    blocks = re.findall(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", bundle.read_text(), re.DOTALL)
    return {base64.b64decode(block) for block in blocks}


def install(source: Path, target: Path, bundle: Path, command: list[str]) -> list[str]:
    """Install the certificates, and return the changes. Raises `CertificateError`.

    After an interruption, the next run continues.
    """
    found = certificates(source)
    wanted = {name_of(der): der for der in found}
    there = {path.name for path in target.glob("trainway-*.crt")}
    # The name is a hash of the content, so an existing file is either complete or was cut short.
    pems = {name: ssl.DER_cert_to_PEM_cert(der) for name, der in wanted.items()}
    new = [name for name in wanted if name not in there or (target / name).read_text() != pems[name]]
    old = sorted(there - wanted.keys())
    # Marks a command that was interrupted between two files.
    pending = target / ".trainway-pending"
    if not new and not old and not pending.exists() and set(found) <= in_bundle(bundle):
        return []
    target.mkdir(parents=True, exist_ok=True)
    pending.touch()
    for name in new:
        (target / name).write_text(pems[name])
        (target / name).chmod(0o644)
    for name in old:
        (target / name).unlink()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CertificateError(f"{' '.join(command)}: {error}") from error
    if lacking := set(found) - in_bundle(bundle):
        said = " ".join((done.stderr + done.stdout).split())
        files = ", ".join(sorted({found[der].name for der in lacking}))
        raise CertificateError(
            f"{bundle} has nothing of {files} after {' '.join(command)} (status {done.returncode}): {said}"
        )
    pending.unlink()
    return [f"trusts {found[wanted[name]].name} ({name})" for name in new] + [f"trusts {name} no more" for name in old]


def main() -> int:
    what, source, *rest = sys.argv[1:]
    try:
        if what == "check":
            certificates(Path(source))
            return 0
        target, bundle, *command = rest
        changes = install(Path(source), Path(target), Path(bundle), command)
    except CertificateError as error:
        print(error, file=sys.stderr)
        return 1
    for change in changes:
        print(change)
    return 0


if __name__ == "__main__":
    sys.exit(main())
