"""The header `Nats-Stream-Source`: which message of which source a stored message is a copy of.

    <stream>[:<hash>][:C=<hash>] <sequence> <filters> <destinations> <subject>[ <identity>]

The first hash stands for the prefix of another domain or account, the second for a consumer that
the configuration names. Several filters and destinations are divided by form feeds. Stream, filters
and destinations together are the index name of the source. nats-server has written two older forms:
the stream and the sequence alone, and the reply subject of the delivered message.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headwater.base.ids import hash62
from headwater.jetstream.config.stream_config import StreamConfig, StreamSource

ALL: Final = ">"
_HASH_SIZE: Final = 8
_FORM_FEED: Final = "\f"
_ACK: Final = b"$JS.ACK."
# The number of words in the reply subject, in its two forms, and where the stream stands.
_SHORT_REPLY: Final = 9
_LONG_REPLY: Final = 11
_DIGITS_MAX: Final = 20


class Provenance(NamedTuple):
    """The origin of a copied message; the index name is empty in the older forms."""

    stream: bytes
    sequence: int
    index_name: bytes = b""
    identity: bytes = b""
    # The subject of the message in its stream; empty in the older forms.
    subject: bytes = b""

    def among(self, sources: Iterable[bytes]) -> Iterator[bytes]:
        """The sources, by index name, that the message may be of."""
        for source in sources:
            if self.index_name:
                if source == self.index_name:
                    yield source
            elif source.partition(b" ")[0].partition(b":C=")[0] == self.stream:
                yield source


def place_of(source: StreamSource) -> str:
    """The name of a source with its prefix and its consumer, as the header begins."""
    place = source.name
    if source.external is not None:
        place += f":{hash62(source.external.api, _HASH_SIZE)}"
    if source.consumer is not None:
        place += f":C={hash62(source.consumer.name, _HASH_SIZE)}"
    return place


def filters_of(source: StreamSource) -> str:
    """The filters and the destinations of a source, as they stand in the header."""
    transforms = source.subject_transforms
    if not transforms:
        return f"{source.filter_subject or ALL} {ALL}"
    filters = _FORM_FEED.join(each.src or ALL for each in transforms)
    return f"{filters} {_FORM_FEED.join(each.dest or ALL for each in transforms)}"


def index_name_of(source: StreamSource) -> bytes:
    """The name by which a stream tells its sources apart."""
    return f"{place_of(source)} {filters_of(source)}".encode(errors="surrogateescape")


def index_names_of(config: StreamConfig) -> list[bytes]:
    """The index names of all sources of a stream."""
    return [index_name_of(source) for source in config.sources if source is not None]


def mirror_name_of(config: StreamConfig) -> bytes:
    """The index name of the origin of a mirror; empty for any other stream."""
    return b"" if config.mirror is None else index_name_of(config.mirror)


def read_provenance(value: bytes) -> Provenance | None:
    """Read the value of a header; None if it has none of the forms."""
    if value.startswith(_ACK):
        return _read_reply(value)
    words = value.split(b" ")
    if len(words) == 2:
        sequence = _number(words[1])
        return None if sequence is None else Provenance(words[0], sequence)
    if len(words) < 4:
        return None
    sequence = _number(words[1])
    if sequence is None:
        return None
    index_name = b" ".join((words[0], words[2], words[3]))
    subject = words[4] if len(words) >= 5 else b""
    identity = words[5] if len(words) >= 6 else b""
    return Provenance(words[0], sequence, index_name, identity, subject)


def _read_reply(value: bytes) -> Provenance | None:
    words = value.split(b".")
    begin = 2 if len(words) == _SHORT_REPLY else 4
    if len(words) != _SHORT_REPLY and len(words) < _LONG_REPLY:
        return None
    sequence = _number(words[begin + 3])
    return None if sequence is None else Provenance(words[begin], sequence)


def _number(digits: bytes) -> int | None:
    return int(digits) if digits.isdigit() and len(digits) <= _DIGITS_MAX else None
