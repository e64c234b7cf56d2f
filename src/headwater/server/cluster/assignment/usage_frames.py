"""The usage of accounts on one server, as it travels to the others.

    frame    version (1 byte), flags (1 byte), then for each account:
             name size (2 bytes), memory (8), file (8), consumers (4), name

All numbers are little-endian. The flag WHOLE begins the usage of a server from nothing: accounts
that no frame mentions from there on have none.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple

from headwater.base.errors import PeerError
from headwater.base.sliced import parts_of

VERSION: Final = 1
WHOLE: Final = 1

ACCOUNTS_MAX: Final = 256
"""The accounts in one frame, which then has some 16 KB: a heartbeat never waits long behind it."""

NAME_BYTES_MAX: Final = 1_024
"""The longest name of an account that is told. Nobody has one as long."""

CONSUMERS_MAX: Final = (1 << 32) - 1
BYTES_MAX: Final = (1 << 64) - 1

_HEAD: Final = Struct("<BB")
_ACCOUNT: Final = Struct("<HQQI")


class AccountUsage(NamedTuple):
    """The bytes that the replicas of an account's streams have on one server, and the number of
    consumers of the streams that the server leads."""

    memory: int = 0
    file: int = 0
    consumers: int = 0


NO_USAGE: Final = AccountUsage()


class UsageFrame(NamedTuple):
    """The usage of some accounts."""

    is_whole: bool
    accounts: dict[str, AccountUsage]


class MalformedUsage(PeerError):
    """Bytes that are no usage of accounts."""


def encode_usage(accounts: Mapping[str, AccountUsage], is_whole: bool) -> Iterator[bytes]:
    """The frames that tell the usage of accounts. A whole has at least one frame."""
    rows = [row for name, usage in accounts.items() if (row := _row(name, usage))]
    if is_whole and not rows:
        yield _HEAD.pack(VERSION, WHOLE)
    flags = WHOLE if is_whole else 0
    for part in parts_of(rows, ACCOUNTS_MAX):
        yield _HEAD.pack(VERSION, flags) + b"".join(part)
        flags = 0


def _row(name: str, usage: AccountUsage) -> bytes:
    encoded = name.encode(errors="surrogateescape")
    if len(encoded) > NAME_BYTES_MAX:
        return b""
    consumers = min(usage.consumers, CONSUMERS_MAX)
    return _ACCOUNT.pack(len(encoded), usage.memory, usage.file, consumers) + encoded


def decode_usage(frame: bytes) -> UsageFrame:
    """The usage that a frame tells. Raises MalformedUsage."""
    if len(frame) < _HEAD.size:
        raise MalformedUsage("the usage of accounts has no head")
    version, flags = _HEAD.unpack_from(frame)
    if version != VERSION or flags & ~WHOLE:
        raise MalformedUsage(f"the usage of accounts has version {version}, flags {flags}")
    accounts: dict[str, AccountUsage] = {}
    at = _HEAD.size
    while at < len(frame):
        begin = at + _ACCOUNT.size
        if begin > len(frame):
            raise MalformedUsage("the usage of accounts ends within an account")
        size, *values = _ACCOUNT.unpack_from(frame, at)
        at = begin + size
        if at > len(frame) or size > NAME_BYTES_MAX:
            raise MalformedUsage("the usage of accounts ends within a name")
        name = frame[begin:at].decode(errors="surrogateescape")
        accounts[name] = AccountUsage(*values)
        if len(accounts) > ACCOUNTS_MAX:
            raise MalformedUsage(f"a frame has the usage of more than {ACCOUNTS_MAX} accounts")
    return UsageFrame(bool(flags & WHOLE), accounts)
