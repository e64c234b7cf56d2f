"""Credentials made on the spot: seeds, the JWTs of an operator's tree, certificates."""

import base64
import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headwater.wire.credentials.nkeys import KeyKind, KeyPair

_SEED_PREFIX = 18 << 3
_DAY = datetime.timedelta(days=1)
_UNLIMITED = -1


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM, one bit at a time."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def checked_base32(data: bytes) -> str:
    """Base32 without padding, the checksum behind."""
    return base64.b32encode(data + crc16(data).to_bytes(2, "little")).decode().rstrip("=")


def seed_text(kind: int, secret: bytes) -> str:
    """A seed as `nsc` and `nk` print it; `kind` is the prefix byte of its public key."""
    return checked_base32(bytes([_SEED_PREFIX | kind >> 5, (kind & 31) << 3]) + secret)


def user_seed(secret: bytes = bytes(range(32))) -> str:
    """A user's seed, `SU…`."""
    return seed_text(KeyKind.USER.value, secret)


def creds_text(jwt: str, seed: str) -> str:
    """A .creds file."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        "NKEY Seed printed below can be used to sign and prove identity.\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


@dataclass(frozen=True)
class OperatorTree:
    """An operator with one account that has JetStream and one user."""

    operator: KeyPair
    account: KeyPair
    user_seed: str

    @classmethod
    def grow(cls) -> "OperatorTree":
        return cls(
            KeyPair(KeyKind.OPERATOR, b"o" * 32),
            KeyPair(KeyKind.ACCOUNT, b"a" * 32),
            user_seed(b"u" * 32),
        )

    @property
    def server_config(self) -> str:
        """Trust the operator; know the account without asking anybody."""
        operator = _jwt(self.operator, self.operator.public, {"type": "operator", "version": 2})
        limits = dict.fromkeys(
            ("subs", "data", "payload", "imports", "exports", "conn", "leaf",
             "mem_storage", "disk_storage", "streams", "consumer"),
            _UNLIMITED,
        )  # fmt: skip
        claims = {"type": "account", "version": 2, "limits": {**limits, "wildcards": True}}
        # JetStream does not start without a system account, which has none itself.
        system = KeyPair(KeyKind.ACCOUNT, b"s" * 32).public
        plain = {"type": "account", "version": 2}
        return (
            f"operator: {operator}\nsystem_account: {system}\nresolver: MEMORY\n"
            f"resolver_preload: {{\n"
            f"  {self.account.public}: {_jwt(self.operator, self.account.public, claims)}\n"
            f"  {system}: {_jwt(self.operator, system, plain)}\n"
            "}\n"
        )

    def creds(self, signing_seed: str | None = None) -> str:
        """The user's .creds; with another seed, one that proves nothing."""
        user = KeyPair.from_seed(self.user_seed)
        claims = {"type": "user", "version": 2, "pub": {}, "sub": {}}
        limits = dict.fromkeys(("subs", "data", "payload"), _UNLIMITED)
        jwt = _jwt(self.account, user.public, {**claims, **limits})
        return creds_text(jwt, signing_seed or self.user_seed)


def _jwt(issuer: KeyPair, subject: str, nats: dict[str, object]) -> str:
    header = {"typ": "JWT", "alg": "ed25519-nkey"}
    claims = {"jti": "test", "iat": 0, "iss": issuer.public, "name": "x", "sub": subject}
    signed = f"{_url64(json.dumps(header))}.{_url64(json.dumps({**claims, 'nats': nats}))}"
    return f"{signed}.{_url64(issuer.sign(signed.encode()))}"


def _url64(data: str | bytes) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Authority:
    """Somebody who signs certificates, into a directory."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .add_extension(_key_id(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.path = self._write(f"{name}.pem", certificate.public_bytes(_PEM))

    def issue(
        self,
        name: str,
        passphrase: bytes | None = None,
        organization: str = "",
        names: Sequence[x509.GeneralName] | bytes = (),
    ) -> tuple[str, str]:
        """A certificate for 127.0.0.1 and localhost, for both sides; its path and its key's.

        With `names`, it is for these instead; bytes are taken as they are.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = names or [x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("localhost")]
        alternative: x509.ExtensionType
        if isinstance(hosts, bytes):
            alternative = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, hosts)
        else:
            alternative = x509.SubjectAlternativeName(hosts)
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization:
            parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        subject = x509.Name(parts)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            self._builder(subject, key.public_key())
            .add_extension(alternative, critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        encryption = (
            serialization.BestAvailableEncryption(passphrase)
            if passphrase
            else serialization.NoEncryption()
        )
        pem = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)
        return (
            self._write(f"{name}.pem", certificate.public_bytes(_PEM)),
            self._write(f"{name}-key.pem", pem),
        )

    def _builder(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )

    def _write(self, name: str, content: bytes) -> str:
        path = self._directory / name
        path.write_bytes(content)
        return str(path)


_PEM = serialization.Encoding.PEM
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _key_id(public: ec.EllipticCurvePublicKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(public)
