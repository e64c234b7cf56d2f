"""TLS as values: the settings of a listener, a loaded certificate, and a secured connection.

`headwater.runtime.sockets.tls` does the work. A server passes these values around without knowing
how a handshake is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from headwater.base.errors import OperatingError

# The cipher suites of TLS 1.2 that a configuration may name, by their names in Go, and OpenSSL's.
CIPHERS: Final[Mapping[str, str]] = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    # Go's older names of the last two.
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
# Suites of TLS 1.3 may be named, and are all in use whether they are named or not.
CIPHERS_OF_TLS_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
# The curves that a configuration may name, by their names in Go, and OpenSSL's.
CURVES: Final[Mapping[str, str]] = {
    "X25519": "X25519",
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
}


class TlsError(OperatingError):
    """Certificates or keys that cannot be used. The text is nats-server's where it has one."""


@dataclass(frozen=True)
class TlsSettings:
    """The certificate of a listener, and the requirements for its peers."""

    # Files in PEM form. Without a certificate no handshake succeeds.
    cert_file: str = ""
    key_file: str = ""
    # Authorities that sign the certificates of peers; empty takes those of the system.
    ca_file: str = ""
    # Require a certificate of every peer.
    verify: bool = False
    # Names of `CIPHERS`; empty allows the suites that OpenSSL prefers.
    cipher_suites: tuple[str, ...] = ()
    # A name of `CURVES`; empty allows the curves that OpenSSL prefers.
    curve: str = ""
    # Refuse TLS 1.2.
    only_tls_1_3: bool = False


class TlsContext(Protocol):
    """A loaded certificate and key. Connections keep theirs when a reload replaces it."""

    @property
    def not_after_ns(self) -> int:
        """The end of the certificate's validity; 0 without a certificate."""
        ...


class TlsLoader(Protocol):
    """Loads certificates from files."""

    def __call__(self, settings: TlsSettings) -> TlsContext:
        """Read the files. Raises TlsError."""
        ...


@dataclass(frozen=True)
class TlsState:
    """A secured connection, as it was agreed in the handshake."""

    # The version, such as "1.3", and the suite by its name in Go.
    version: str
    cipher_suite: str
    # The certificates that the peer presented, in DER form: its own first, which is verified, and
    # those of authorities. Empty unless they are required.
    peer_certificates: tuple[bytes, ...] = ()
