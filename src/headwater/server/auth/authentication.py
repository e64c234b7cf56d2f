"""Authentication: from the credentials in a CONNECT to a user, or to a refusal.

Plain secrets are compared in constant time at once. The comparison with a bcrypt hash takes tens of
milliseconds on purpose, so it is returned as work for another thread.
"""

import base64
import hmac
from collections.abc import Callable, Sequence
from typing import Final, final

import bcrypt

from headwater.server.configuration.options import GLOBAL_ACCOUNT, Options, UserOptions, is_bcrypt
from headwater.wire.credentials.certificates import (
    alternative_names,
    subject_parts,
    written_parts,
)
from headwater.wire.credentials.nkeys import is_signed_by
from headwater.wire.info import ConnectOptions

# bcrypt reads no more than this; newer libraries refuse longer input instead of cutting it.
_BCRYPT_BYTES_MAX: Final = 72

# The only way in there is so far.
_CONNECTION_TYPE: Final = "STANDARD"

_ANYONE: Final = UserOptions(username="", account_name=GLOBAL_ACCOUNT)


@final
class Verdict:
    """The user a client turned out to be; None when it is refused."""

    __slots__ = ("user",)

    def __init__(self, user: UserOptions | None) -> None:
        self.user = user


@final
class SlowCheck:
    """A comparison to be run off the loop; `work` gives the verdict."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[], Verdict]) -> None:
        self.work = work


_REFUSED: Final = Verdict(None)


@final
class Authenticator:
    """The credentials a server accepts. Rebuilt when the options change."""

    __slots__ = (
        "_by_name",
        "_by_subject",
        "_no_auth_user",
        "_single",
        "_token",
        "_users",
        "announced",
        "has_signers",
        "required",
    )

    def __init__(self, options: Options) -> None:
        self.required = options.auth_required
        self._users = {user.username: user for user in options.all_users()}
        self._no_auth_user = self._users.get(options.no_auth_user)
        # A server that says nothing of a stand-in still tells clients that it requires CONNECT.
        self.announced = self.required and self._no_auth_user is None
        # Whether some users sign a nonce.
        self.has_signers = any(user.is_nkey for user in self._users.values())
        if options.is_global_open:
            self._no_auth_user = _ANYONE
        self._token = options.token
        # Users whom certificates may name. Nkeys, a token and the user of a server without others
        # are not looked for in certificates, as by nats-server.
        self._by_name: dict[str, UserOptions] = {}
        if options.tls is not None and options.tls.maps_users:
            self._by_name = {name: user for name, user in self._users.items() if not user.is_nkey}
        # Those who are named as the subject of a certificate.
        self._by_subject = {
            written_parts(name): user for name, user in self._by_name.items() if "=" in name
        }
        self._single: UserOptions | None = None
        if options.username:
            self._single = UserOptions(username=options.username, password=options.password)

    @property
    def stand_in(self) -> UserOptions | None:
        """The user of clients that present no credentials; None if they are refused."""
        user = self._no_auth_user
        if user is None or self._by_name or not _may_connect(user):
            # Nobody stands in for a client whose certificate has to name its user.
            return None
        return user

    def user(self, name: str) -> UserOptions | None:
        """The configured user of that name."""
        if self._single is not None and self._single.username == name:
            return self._single
        return self._users.get(name)

    def check(
        self, connect: ConnectOptions, certificates: Sequence[bytes] = (), nonce: str = ""
    ) -> Verdict | SlowCheck:
        """Judge a CONNECT, the certificates of its connection, and its signature of the nonce."""
        if not self.required:
            return Verdict(_ANYONE)
        if connect.nkey and self.has_signers:
            return Verdict(self._signer(connect, nonce))
        if self._by_name:
            owner = self._owner_of(certificates)
            return _REFUSED if owner is None else _compare(owner.password, connect.password, owner)
        if self._token:
            return _compare(self._token, connect.auth_token, _ANYONE)
        if not self._presents_credentials(connect) and self._no_auth_user is not None:
            return Verdict(self.stand_in)
        user = self.user(connect.user)
        if user is None or user.is_nkey or not _may_connect(user):
            return _REFUSED
        return _compare(user.password, connect.password, user)

    def _owner_of(self, certificates: Sequence[bytes]) -> UserOptions | None:
        """The user whose name is in a certificate."""
        if certificates:
            named = (self._by_name.get(name) for name in alternative_names(certificates[0]))
            of_subject = self._by_subject.get(subject_parts(certificates[0]))
            user = next((user for user in named if user is not None), of_subject)
            if user is not None and _may_connect(user):
                return user
        return None

    def _presents_credentials(self, connect: ConnectOptions) -> bool:
        # A key is no credential if no user signs.
        nkey = connect.nkey if self.has_signers else ""
        return bool(connect.user or connect.password or connect.auth_token or nkey)

    def _signer(self, connect: ConnectOptions, nonce: str) -> UserOptions | None:
        """The user whose key has signed the nonce."""
        user = self._users.get(connect.nkey)
        if user is None or not user.is_nkey or not _may_connect(user) or not nonce:
            return None
        signature = _signature(connect.sig)
        return user if is_signed_by(user.username, nonce.encode(), signature) else None


def _signature(text: str) -> bytes:
    """A signature in base64, with either alphabet; empty if the text cannot be decoded."""
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except ValueError:
        return b""


def _may_connect(user: UserOptions) -> bool:
    kinds = user.allowed_connection_types
    return not kinds or _CONNECTION_TYPE in kinds


def _compare(expected: str, given: str, user: UserOptions) -> Verdict | SlowCheck:
    if not is_bcrypt(expected):
        same = hmac.compare_digest(expected.encode(), given.encode())
        return Verdict(user) if same else _REFUSED

    def work() -> Verdict:
        try:
            same = bcrypt.checkpw(given.encode()[:_BCRYPT_BYTES_MAX], expected.encode())
        except ValueError:
            return _REFUSED
        return Verdict(user) if same else _REFUSED

    return SlowCheck(work)
