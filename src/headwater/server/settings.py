"""The options in force, and the values that follow from them.

A reload replaces all of them at once. Objects that read options hold the one `Settings` of their
server instead of a copy, so that none of them is forgotten by a reload.
"""

from typing import final

from headwater.server.auth.authentication import Authenticator
from headwater.server.configuration.options import Options


@final
class Settings:
    """The configuration of one running server."""

    __slots__ = ("authenticator", "loaded_wall_ns", "options")

    def __init__(self, options: Options, loaded_wall_ns: int) -> None:
        self.options = options
        self.authenticator = Authenticator(options)
        # The time of the start, or of the last reload.
        self.loaded_wall_ns = loaded_wall_ns

    def replace(self, options: Options, loaded_wall_ns: int) -> None:
        """Put other options in force."""
        self.options = options
        self.authenticator = Authenticator(options)
        self.loaded_wall_ns = loaded_wall_ns
