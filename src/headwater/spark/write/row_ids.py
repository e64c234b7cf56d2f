"""Message ids of the rows of one partition, equal whenever the rows are written again.

    <query>-<batch>-<partition>-<content>-<n>

`content` is a hash of everything a row publishes, `n` counts equal rows of the partition from 0. So
an id does not depend on the position of a row: a partition that a shuffle returns in another order
has the same ids. Two rows that differ but have equal hashes are told apart by `n` as well; only if
they also change places between two attempts do they swap ids, which a hash of 96 bits makes
improbable.

Made in bulk: about half a microsecond per row. A partition keeps a hash of each of its distinct
rows while it is written, some 100 bytes of memory each.

Knows neither Spark nor the network.
"""

from binascii import b2a_base64
from hashlib import blake2b
from typing import Final, final

# A multiple of three, so that the hashes of many rows can be encoded in one call without padding.
CONTENT_BYTES: Final = 12
CONTENT_CHARS: Final = 16
QUERY_CHARS: Final = 16
# Hashes of rows are added modulo this: a number whose digits are the hashes of many rows has the
# sum of its digits as remainder, so that one division adds all of them.
_SUM_MODULUS: Final = (1 << (8 * CONTENT_BYTES)) - 1
# The limit of subjects whose hash is kept as a starting point.
SUBJECTS_MAX: Final = 10_000


def short_query(query_id: str) -> str:
    """The part of a query's id (a UUID) that goes into ids and keys."""
    return query_id.replace("-", "")[:QUERY_CHARS]


def batch_prefix(query: str, batch: int) -> bytes:
    """The beginning of all ids of a batch."""
    return f"{query}-{batch}-".encode()


def content_of(row_id: bytes) -> bytes:
    """The part of an id that equal rows share, in any partition."""
    return row_id.rsplit(b"-", 2)[-2]


def content_of_row(subject: bytes, lines: bytes, payload: bytes) -> bytes:
    """The content that `content_of` finds in the row's id, from the row itself."""
    hasher = _with_lines(subject, lines) if lines else _with_subject(subject)
    hasher.update(payload)
    return b2a_base64(hasher.digest(), newline=False)


def added_sums(*content_sums: int) -> int:
    """The sum of contents that have these sums, each the `content_sum` of some rows."""
    return sum(content_sums) % _SUM_MODULUS


def transaction_query(app_id: str, stream: str) -> str:
    """The name of a query for batch writes that an application numbers, into one target.

    The first letter keeps it apart from any query's.
    """
    named = b"%b\0%b" % (stream.encode(), app_id.encode())
    return "t" + blake2b(named, digest_size=8).hexdigest()[: QUERY_CHARS - 1]


@final
class RowIds:
    """Gives the rows of one partition of one batch their ids."""

    __slots__ = (
        "_counts",
        "_hashers",
        "_seen",
        "_sum",
        "batch_prefix",
        "content_sum",
        "count",
        "prefix",
    )

    def __init__(self, query: str, batch: int, partition: int) -> None:
        self.batch_prefix = batch_prefix(query, batch)
        self.prefix = b"%b%d-" % (self.batch_prefix, partition)
        self._seen: set[bytes] = set()
        # The number of occurrences of a content, for those with more than one.
        self._counts: dict[bytes, int] = {}
        self._hashers: dict[bytes, blake2b] = {}
        self._sum = blake2b(digest_size=CONTENT_BYTES)
        # Identifies the rows so far in any order and in any partitions: sums of partitions add up.
        self.content_sum = 0
        self.count = 0

    def of(
        self, subjects: list[bytes], header_lines: list[bytes], payloads: list[bytes]
    ) -> list[bytes]:
        """The ids of the next rows. `header_lines` are without version line and empty line."""
        contents = self._contents(subjects, header_lines, payloads)
        self.count += len(contents)
        fresh = set(contents)
        prefix = self.prefix
        if len(fresh) == len(contents) and self._seen.isdisjoint(fresh):
            self._seen |= fresh
            return [b"%b%b-0" % (prefix, content) for content in contents]
        return [b"%b%b-%d" % (prefix, content, self._nth(content)) for content in contents]

    def of_bad(self, subject: bytes, fault: bytes, payload: bytes) -> bytes:
        """The id of a row that cannot be a message, for this fault."""
        # No header line is empty, so no message has the content of a bad row.
        return self.of([subject], [b"\r\n" + fault], [payload])[0]

    def has(self, row_id: bytes) -> bool:
        """Whether the id was given to one of the rows so far."""
        if not row_id.startswith(self.prefix):
            return False
        content, _, nth = row_id[len(self.prefix) :].partition(b"-")
        return content in self._seen and int(nth) < self._counts.get(content, 1)

    def digest(self) -> str:
        """A hash of all rows so far in their order."""
        return self._sum.hexdigest()

    def _nth(self, content: bytes) -> int:
        """The number of equal rows before."""
        if content not in self._seen:
            self._seen.add(content)
            return 0
        nth = self._counts.get(content, 1)
        self._counts[content] = nth + 1
        return nth

    def _contents(
        self, subjects: list[bytes], header_lines: list[bytes], payloads: list[bytes]
    ) -> list[bytes]:
        digests = []
        hashers = self._hashers
        for subject, lines, payload in zip(subjects, header_lines, payloads, strict=True):
            if lines:
                hasher = _with_lines(subject, lines)
            else:
                hasher = (hashers.get(subject) or self._without_lines(subject)).copy()
            hasher.update(payload)
            digests.append(hasher.digest())
        joined = b"".join(digests)
        self._sum.update(joined)
        self.content_sum = added_sums(self.content_sum, int.from_bytes(joined))
        text = b2a_base64(joined, newline=False)
        return [text[begin : begin + CONTENT_CHARS] for begin in range(0, len(text), CONTENT_CHARS)]

    def _without_lines(self, subject: bytes) -> blake2b:
        """A hash that has begun with the subject; to be copied."""
        hasher = _with_subject(subject)
        if len(self._hashers) < SUBJECTS_MAX:
            self._hashers[subject] = hasher
        return hasher


def _with_subject(subject: bytes) -> blake2b:
    return blake2b(b"%b\r\n" % subject, digest_size=CONTENT_BYTES)


def _with_lines(subject: bytes, lines: bytes) -> blake2b:
    """A hash that has begun with subject and headers, distinct from any row without headers."""
    begin = b"%b\r\n%d\r\n%b" % (subject, len(lines), lines)
    return blake2b(begin, digest_size=CONTENT_BYTES, person=b"headers")
