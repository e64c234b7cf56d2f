"""The options in force, and the values that follow from them.

A reload replaces all of them at once. Objects that read options hold the one `Settings` of their
server instead of a copy, so that none of them is forgotten by a reload.
"""

from typing import final

from headwater.runtime.tls import TlsContext, TlsLoader
from headwater.server.auth.authentication import Authenticator
from headwater.server.configuration.options import Options


@final
class Settings:
    """The configuration of one running server."""

    __slots__ = ("_load_tls", "authenticator", "loaded_wall_ns", "options", "tls_context")

    def __init__(self, options: Options, loaded_wall_ns: int, load_tls: TlsLoader) -> None:
        self._load_tls = load_tls
        self.tls_context = self._context_of(options)
        self.options = options
        self.authenticator = Authenticator(options)
        # The time of the start, or of the last reload.
        self.loaded_wall_ns = loaded_wall_ns

    def replace(self, options: Options, loaded_wall_ns: int) -> None:
        """Put other options in force, and read certificates again. Raises TlsError."""
        self.tls_context = self._context_of(options)
        self.options = options
        self.authenticator = Authenticator(options)
        self.loaded_wall_ns = loaded_wall_ns

    def _context_of(self, options: Options) -> TlsContext | None:
        return None if options.tls is None else self._load_tls(options.tls.settings)
