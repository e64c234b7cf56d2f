"""Replies to publishes: acknowledgements and refusals, byte for byte as nats-server writes them."""

from typing import Final, final

from headwater.go.json import write
from headwater.go.quoting import quote_bytes
from headwater.jetstream.api.documents import ErrorDocument, Refusal
from headwater.jetstream.errors import ApiError

# Part of an ack, with the blank that nats-server writes.
_DUPLICATE: Final = b',"duplicate": true'


@final
class PubAcks:
    """The replies of one stream."""

    __slots__ = ("_name", "begins")

    def __init__(self, name: str, domain: str) -> None:
        self._name = name
        member = b'"domain":%b,' % write(domain) if domain else b""
        # An ack up to its sequence. A plain ack ends behind the sequence, with a brace.
        self.begins = b'{"stream":%b,%b"seq":' % (write(name), member)

    def counter_ack(self, sequence: int, body: bytes) -> bytes:
        """The reply to an increment of a counter, whose stored body is {"val":"n"}."""
        # The ack repeats the text between the braces.
        return b"%b%d,%b}" % (self.begins, sequence, body[1:-1])

    def duplicate_ack(self, sequence: int) -> bytes:
        """The reply to a publish whose message is stored already."""
        return b"%b%d%b}" % (self.begins, sequence, _DUPLICATE)

    def batch_ack(
        self, sequence: int, batch_id: bytes, count: int, is_duplicate: bool = False
    ) -> bytes:
        """The reply to the commit of a batch."""
        mark = _DUPLICATE if is_duplicate else b""
        name = quote_bytes(batch_id).encode()
        return b'%b%d%b,"batch":%b,"count":%d}' % (self.begins, sequence, mark, name, count)

    def refusal(self, error: ApiError) -> bytes:
        """The reply to a publish that is refused."""
        return write(Refusal(ErrorDocument.of(error), self._name, 0))
