"""The sizes of the messages of a range, read without payloads if the server can leave them out.

A server knows the size of a whole stream, not of a range of it. A read that is bounded in bytes
therefore reads each message once: through a consumer that sends headers and sizes alone, or, if
the stream takes no consumer, as a whole.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

from headwater.client.api.answers import StreamInfo
from headwater.client.link.connection import Connection
from headwater.client.link.reads.fetch import Way, read_range
from headwater.client.link.reads.ranges import Columns, SequenceRange


def message_sizes(
    connection: Connection,
    info: StreamInfo,
    wanted: SequenceRange,
    subjects: tuple[str, ...],
    way: Way,
) -> Generator[tuple[int, int], None, None]:
    """The sequence of each message and its bytes: subject, headers and payload.

    A caller that has seen enough closes the iterator.
    """
    if way is Way.CONSUMER:
        chunks = read_range(connection, info, wanted, subjects, way, headers_only=True)
        with closing(chunks):
            for chunk in chunks:
                if not chunk.payload_bytes:
                    # The stream takes no consumer, and the other ways of reading give no sizes.
                    wanted = wanted.starting_at(chunk.sequences[0])
                    break
                yield from _sizes(chunk, chunk.payload_bytes)
            else:
                return
        way = Way.DIRECT if info.allows_direct else Way.GETS
    with closing(read_range(connection, info, wanted, subjects, way)) as chunks:
        for chunk in chunks:
            yield from _sizes(chunk, map(len, chunk.payloads))


def _sizes(chunk: Columns, payload_bytes: Iterable[int]) -> Iterator[tuple[int, int]]:
    parts = zip(map(len, chunk.subjects), map(len, chunk.headers), payload_bytes, strict=True)
    return zip(chunk.sequences, map(sum, parts), strict=True)
