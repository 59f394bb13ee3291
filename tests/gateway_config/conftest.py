"""Certificates, keys and tokens made for one test."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ISSUER = "https://id.example.com/"
AUDIENCE = "https://mcp.example.com/mcp"


@dataclass(frozen=True)
class Pki:
    """PEM files of one CA and of what it signed."""

    folder: Path

    def file(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """``ca.pem``, and what it signed: ``envoy.pem`` and ``processor.pem``, each with ``…-key.pem``."""
    folder = tmp_path_factory.mktemp("pki")
    ca_key, ca = _certificate("test CA", None, None)
    _write(folder, "ca", ca, ca_key)
    for name, host in (("envoy", "envoy.internal"), ("processor", "toolsearch.internal")):
        key, certificate = _certificate(host, ca, ca_key)
        _write(folder, name, certificate, key)
    return Pki(folder)


def _certificate(
    name: str, ca: x509.Certificate | None, ca_key: ec.EllipticCurvePrivateKey | None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(ca.subject if ca else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca is None, path_length=None), critical=True)
    )
    if ca is not None:
        names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.1"))])
        builder = builder.add_extension(names, critical=False)
    return key, builder.sign(ca_key or key, hashes.SHA256())


def _write(folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}-key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


@dataclass(frozen=True)
class Issuer:
    """Signs tokens; ``jwks`` is the file of its public key."""

    key: ec.EllipticCurvePrivateKey
    jwks: Path

    def token(self, **claims: Any) -> str:
        now = datetime.datetime.now(datetime.UTC)
        payload = {"iss": ISSUER, "aud": AUDIENCE, "exp": now + datetime.timedelta(hours=1), **claims}
        return jwt.encode(payload, self.key, "ES256", headers={"kid": "k1"})


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    file = tmp_path_factory.mktemp("jwks") / "jwks.json"
    file.write_text(json.dumps({"keys": [{**public, "kid": "k1", "alg": "ES256", "use": "sig"}]}))
    return Issuer(key, file)
