"""X.509 certificates of clients: their fingerprints, and the names that they may give a user.

A certificate comes in DER form from a handshake that has verified it. Names of its owner are tried
in nats-server's order: e-mail addresses, DNS names, URIs, and then the subject, whose parts a
configuration may write in any order.

A handshake does not read all parts of a certificate, nor those that stand behind the first one:
`check` has to be called before a certificate is looked at in any other way.

Must not know: users, and where a certificate came from.
"""

import hashlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.base.errors import PeerError

if TYPE_CHECKING:
    from cryptography import x509

# The parts of a subject in the order in which Go writes them, by the numbers of their types.
_GO_ORDER: Final = (
    "2.5.4.5",  # serialNumber
    "2.5.4.3",  # CN
    "2.5.4.17",  # postalCode
    "2.5.4.9",  # street
    "2.5.4.8",  # ST
    "2.5.4.7",  # L
    "2.5.4.11",  # OU
    "2.5.4.10",  # O
    "2.5.4.6",  # C
)


class CertificateSummary(NamedTuple):
    """One certificate of a chain, as monitoring shows it."""

    # The subject in Go's order, such as "CN=client,O=company".
    subject: str
    # SHA-256 of the public key and of the certificate, in hex.
    key_sha256: str
    sha256: str


def check(certificate: bytes) -> None:
    """Read all parts of a certificate that are ever looked at. Raises PeerError."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        summary(certificate)
        for _ in alternative_names(certificate):
            pass
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise PeerError(f"x509: {error}") from None


def key_fingerprint(certificate: bytes) -> str:
    """SHA-256 of the public key (its SubjectPublicKeyInfo), in hex."""
    return summary(certificate).key_sha256


def summary(certificate: bytes) -> CertificateSummary:
    """The subject and the fingerprints of a certificate."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    loaded = _loaded(certificate)
    key = loaded.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return CertificateSummary(
        _go_text(loaded.subject),
        hashlib.sha256(key).hexdigest(),
        hashlib.sha256(certificate).hexdigest(),
    )


def alternative_names(certificate: bytes) -> Iterator[str]:
    """The names beside the subject: e-mail addresses, DNS names and URIs."""
    from cryptography import x509

    try:
        extensions = _loaded(certificate).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    for kind in (x509.RFC822Name, x509.DNSName, x509.UniformResourceIdentifier):
        yield from names.get_values_for_type(kind)


def subject_parts(certificate: bytes) -> frozenset[str]:
    """The parts of the subject, such as "CN=client"."""
    return frozenset(part.rfc4514_string() for part in _loaded(certificate).subject)


def written_parts(subject: str) -> frozenset[str]:
    """The parts of a subject as a configuration writes it."""
    return frozenset(part.strip() for part in subject.replace("+", ",").split(","))


def _loaded(certificate: bytes) -> "x509.Certificate":
    # Only servers with TLS spend the time for this import.
    from cryptography import x509

    with warnings.catch_warnings():
        # A serial number below zero, for instance, is deprecated, and says nothing to a client.
        warnings.simplefilter("ignore")
        return x509.load_der_x509_certificate(certificate)


def _go_text(subject: "x509.Name") -> str:
    """The subject with its parts in Go's order, and parts that Go does not know at the end."""
    parts = list(subject)
    known = [part for number in _GO_ORDER for part in parts if part.oid.dotted_string == number]
    rest = [part for part in parts if part not in known]
    return ",".join(part.rfc4514_string() for part in (*known, *rest))
