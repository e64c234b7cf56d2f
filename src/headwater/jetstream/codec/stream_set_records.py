"""The bodies of the records of the set of streams. All integers little-endian.

    STREAM_CREATED   0  incarnation   16
       (32 +)       16  created       i64  ns since 1970
                    24  account size  u32
                    28  name size     u32
                    32  account | name | configuration

    STREAM_DELETED   0  incarnation   16
       (24 +)       16  account size  u32
                    20  name size     u32
                    24  account | name

Names are UTF-8. The configuration is the JSON that the file of the stream has, to the end.
"""

from struct import Struct
from typing import Final

from headwater.base.invariants import check
from headwater.jetstream.codec.configurations import decode_stream_config, encode_config
from headwater.jetstream.codec.values import sized_parts, text_of, unpacked
from headwater.jetstream.records import StreamCreated, StreamDeleted

STREAM_CREATED: Final = 32
STREAM_DELETED: Final = 33

INCARNATION_BYTES: Final = 16

_CREATED: Final = Struct("<16sqII")
_DELETED: Final = Struct("<16sII")


def encode_stream_created(record: StreamCreated) -> bytes:
    """The body of a STREAM_CREATED record."""
    check(len(record.incarnation) == INCARNATION_BYTES, "an incarnation has 16 bytes")
    account, name = record.account.encode(), record.name.encode()
    fixed = _CREATED.pack(record.incarnation, record.created_ns, len(account), len(name))
    return b"".join((fixed, account, name, encode_config(record.config)))


def decode_stream_created(body: bytes) -> StreamCreated:
    """Decode the body of a STREAM_CREATED record."""
    incarnation, created_ns, account_size, name_size = unpacked(_CREATED, body)
    config_size = len(body) - _CREATED.size - account_size - name_size
    sizes = (account_size, name_size, max(config_size, 0))
    account, name, config = sized_parts(body, _CREATED.size, sizes)
    return StreamCreated(
        text_of(account), text_of(name), incarnation, decode_stream_config(config), created_ns
    )


def encode_stream_deleted(record: StreamDeleted) -> bytes:
    """The body of a STREAM_DELETED record."""
    check(len(record.incarnation) == INCARNATION_BYTES, "an incarnation has 16 bytes")
    account, name = record.account.encode(), record.name.encode()
    return _DELETED.pack(record.incarnation, len(account), len(name)) + account + name


def decode_stream_deleted(body: bytes) -> StreamDeleted:
    """Decode the body of a STREAM_DELETED record."""
    incarnation, account_size, name_size = unpacked(_DELETED, body)
    account, name = sized_parts(body, _DELETED.size, (account_size, name_size))
    return StreamDeleted(text_of(account), text_of(name), incarnation)
