"""Certificates for tests of TLS: of a server, of its clients, and of a stranger."""

import atexit
import functools
import shutil
import ssl
import tempfile
from pathlib import Path

from cryptography import x509

from tests.kit.credentials import Authority

EMAIL = "ada@example.com"
ORGANIZATION = "Headwater"


class TlsFiles:
    """An authority with the certificates that it signed, and another authority."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self._authority = Authority(self.folder)
        self._stranger = Authority(self.folder, "stranger")
        self._authority.issue("server")
        self._authority.issue("client", organization=ORGANIZATION)
        self._authority.issue("ada", names=[x509.RFC822Name(EMAIL)])
        # A DNS name in Latin-1, which OpenSSL does not mind.
        self._authority.issue("garbled", names=b"\x30\x05\x82\x03k\xfcr")
        self._stranger.issue("eve")

    def path(self, name: str) -> str:
        """The path of a file, such as `server.pem` or `server-key.pem`."""
        return str(self.folder / name)

    def texts(self, *names: str) -> tuple[tuple[str, str], ...]:
        """Files as a Setup writes them."""
        return tuple((name, (self.folder / name).read_text()) for name in names)

    def server_files(self) -> tuple[tuple[str, str], ...]:
        """The files that a server's section `tls` may name."""
        return self.texts("server.pem", "server-key.pem", "authority.pem")

    def certificate(self, name: str) -> bytes:
        """A certificate in DER form."""
        return ssl.PEM_cert_to_DER_cert((self.folder / f"{name}.pem").read_text())

    def client_context(self, name: str = "") -> ssl.SSLContext:
        """A client that trusts the authority, with the certificate of that name or without one."""
        context = ssl.create_default_context(cafile=self.path("authority.pem"))
        if name:
            context.load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}-key.pem"))
        return context


@functools.cache
def tls_files() -> TlsFiles:
    """One set of files for all tests of a process."""
    return TlsFiles()
