"""Files as another version of the program would have written them."""

from headwater.base.checksums import crc32


def with_version(data: bytes, version: int, crc_at: int) -> bytes:
    """The file as another version of the program would have written it."""
    head = data[:8] + version.to_bytes(2, "little") + data[10:crc_at]
    body = data[crc_at + 4 :]
    return head + crc32(body, crc32(head)).to_bytes(4, "little") + body
