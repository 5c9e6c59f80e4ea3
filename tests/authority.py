"""A test authority: certificates for servers on this machine."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


def make(folder: Path, host: str = "localhost") -> Path:
    """Write ``ca.pem``, the certificate of an authority, and ``cert.pem`` and ``key.pem``, which it gave to a host."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _named("odm test authority")
    own = _begun(issuer, issuer, authority.public_key()).add_extension(x509.BasicConstraints(True, None), critical=True)
    leaf = (
        _begun(_named(host), issuer, key.public_key())
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    )
    for name, builder in (("ca", own), ("cert", leaf)):
        folder.joinpath(f"{name}.pem").write_bytes(builder.sign(authority, hashes.SHA256()).public_bytes(_PEM))
    form, secrecy = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    folder.joinpath("key.pem").write_bytes(key.private_bytes(_PEM, form, secrecy))
    return folder


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
