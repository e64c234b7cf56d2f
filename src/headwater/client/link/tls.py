"""TLS as the options of a Login ask for it.

A server of NATS greets in the clear and then waits for the handshake, so a socket is turned into a
secured one after its INFO. The name in the certificate is always compared with the host of the url.

Must not know: the protocol beyond the two fields of INFO that speak of TLS.
"""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.client.link.option_files import LoginError, readable_path
from headwater.client.link.server_urls import Server


@dataclass(frozen=True)
class TlsFiles:
    """Paths of PEM files, each of which may be missing.

    `ca` replaces the authorities that this machine trusts. `cert` is the certificate of the client;
    its `key` may be in the same file.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """A context with the authorities and the certificate of the files.

    Raises LoginError, which names the option of the file at fault.
    """
    if files.key is not None and files.cert is None:
        raise LoginError("tlsKey", "there is no certificate to it; give the certificate as well")
    authorities = _path("tlsCa", files.ca)
    try:
        context = ssl.create_default_context(cafile=authorities)
    except ssl.SSLError:
        raise LoginError("tlsCa", f"there is no PEM certificate in {authorities!r}") from None
    if files.cert is not None:
        _load_own_certificate(context, files.cert, files.key)
    return context


def needs_tls(files: TlsFiles, server: Server, info: Mapping[str, Any]) -> bool:
    """Whether the handshake is next. Raises LoginError if one side wants what the other has not."""
    offered = bool(info.get("tls_required") or info.get("tls_available"))
    if server.tls and not offered:
        advice = "secure the server, or use nats:// without options of TLS"
        raise LoginError("tls", f"{server.address} does not offer TLS; {advice}")
    is_next = server.tls or bool(info.get("tls_required"))
    # Said here, because after a handshake without one the server just closes the connection.
    if is_next and info.get("tls_verify") and files.cert is None:
        raise LoginError("tlsCert", f"{server.address} wants the certificate of its clients")
    return is_next


def secured(connection: socket.socket, files: TlsFiles, server: Server) -> ssl.SSLSocket:
    """The socket after the handshake. Raises LoginError, and OSError if the peer goes away."""
    context = tls_context(files)
    try:
        return context.wrap_socket(connection, server_hostname=server.host)
    except ssl.SSLError as error:
        failure = handshake_failure(error, server.address)
        if failure is None:
            raise
        raise failure from None


def handshake_failure(error: ssl.SSLError, address: str) -> LoginError | None:
    """Why the handshake with the server at `address` failed; None if the peer just went away."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or str(error)
        return LoginError("tlsCa", f"{address} is not trusted: {reason}")
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    return LoginError("tls", f"the handshake with {address} failed: {_reason(error)}")


def alert_of(error: OSError) -> str | None:
    """The TLS alert of the peer, None for another error.

    A server checks the certificate of its client after the handshake.
    """
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return _reason(error)
    return None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def _path(option: str, path: str | None) -> str | None:
    return None if path is None else readable_path(option, path)


def _load_own_certificate(context: ssl.SSLContext, cert: str, key: str | None) -> None:
    # Both are tried before: OpenSSL does not say which of the two it could not read.
    cert_path = readable_path("tlsCert", cert)
    key_option = "tlsCert" if key is None else "tlsKey"
    key_path = _path(key_option, key)

    def ask() -> str:
        # Without an answer OpenSSL would ask on the terminal of whichever machine runs this.
        raise LoginError(key_option, "the key is encrypted; give one without a passphrase")

    try:
        context.load_cert_chain(cert_path, key_path, ask)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise LoginError(key_option, "the key does not belong to the certificate") from None
        wanted = "wants a certificate and its key as PEM; the key may be in a file of its own"
        raise LoginError("tlsCert", wanted) from None
