"""Certificate authorities, and what they sign, as an organization has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec


def authority(directory: Path, name: str = "Example Root", *, days: int = 2) -> Path:
    """The certificate of a new authority, in PEM; its key is beside it, as `.key`. Negative days: it is over."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    built = _builder(name, key, days).issuer_name(_name(name))
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return _write(directory / f"{name.replace(' ', '-')}.pem", key, built.sign(key, hashes.SHA256()))


def signed(certificate: Path, host: str) -> Path:
    """A server's certificate for a host name, signed by an authority; its key is beside it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    issuer = x509.load_pem_x509_certificate(certificate.read_bytes())
    issuers_key = serialization.load_pem_private_key(certificate.with_suffix(".key").read_bytes(), None)
    assert isinstance(issuers_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    built = _builder(host, key, 2).issuer_name(issuer.subject)
    built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    return _write(certificate.with_name(f"{host}.pem"), key, built.sign(issuers_key, hashes.SHA256()))


def _name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: str, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
    )


def _write(path: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Path:
    from cryptography.hazmat.primitives import serialization

    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.with_suffix(".key").write_bytes(private)
    return path
