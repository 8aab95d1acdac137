"""Create the keys of a twin: an SSH key per virtual host and client, certificates for HTTPS.

They are created for each twin, kept on a file system in memory and deleted with the twin.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncssh
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_ssh_key(path: Path) -> str:
    """Write a new SSH private key to `path`, mode 0600; return its public line."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    _write_secret(path, key.export_private_key())
    return key.export_public_key().decode().strip()


def write_certificate(directory: Path, addresses: list[str]) -> tuple[Path, Path]:
    """Write a self-signed certificate for names and addresses; return (certificate, key).

    Clients inside the twin trust it through SSL_CERT_FILE; it is not used outside of the twin.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "testbed twin")])
    yesterday = datetime.now(UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(yesterday)
        .not_valid_after(yesterday + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([_general_name(a) for a in addresses]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, private = directory / "cert.pem", directory / "key.pem"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _write_secret(private, pem)
    return chain, private


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(0o600, exist_ok=False)
    path.write_bytes(content)
