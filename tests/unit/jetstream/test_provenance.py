"""The header that says of which message of which source a stored message is a copy."""

import pytest

from headwater.jetstream.config.stream_config import (
    ExternalStream,
    StreamConfig,
    StreamConsumerSource,
    StreamSource,
    SubjectTransformConfig,
)
from headwater.jetstream.provenance import (
    Provenance,
    index_name_of,
    index_names_of,
    read_provenance,
)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"O 7", Provenance(b"O", 7)),
        (b"O 7 > >", Provenance(b"O", 7, b"O > >")),
        (b"O 7 a b a.x", Provenance(b"O", 7, b"O a b", b"", b"a.x")),
        (b"O:h 7 a b a.x id", Provenance(b"O:h", 7, b"O:h a b", b"id", b"a.x")),
        (b"$JS.ACK.O.C.1.7.8.9.0", Provenance(b"O", 7)),
        (b"$JS.ACK._.hash.O.C.1.7.8.9.0", Provenance(b"O", 7)),
    ],
)
def test_every_form_is_read(value: bytes, found: Provenance) -> None:
    assert read_provenance(value) == found


@pytest.mark.parametrize(
    "value", [b"", b"O", b"O x", b"O 7 a", b"O -7", b"$JS.ACK.O.C.1.x.8.9.0", b"O 9" + b"9" * 30]
)
def test_other_values_say_nothing(value: bytes) -> None:
    assert read_provenance(value) is None


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (StreamSource(name="O"), b"O > >"),
        (StreamSource(name="O", filter_subject="a"), b"O a >"),
        (
            StreamSource(
                name="O",
                subject_transforms=(
                    SubjectTransformConfig(src="a", dest="b"),
                    SubjectTransformConfig(src="c"),
                ),
            ),
            b"O a\x0cc b\x0c>",
        ),
    ],
)
def test_a_source_is_known_by_its_filters(source: StreamSource, name: bytes) -> None:
    assert index_name_of(source) == name


def test_prefix_and_consumer_are_part_of_a_name() -> None:
    external = StreamSource(name="O", external=ExternalStream(api="$JS.hub.API"))
    named = StreamSource(name="O", consumer=StreamConsumerSource(name="C", deliver_subject="d"))
    assert (
        len({*index_names_of(StreamConfig(sources=(external, named, StreamSource(name="O"))))}) == 3
    )


def test_an_older_form_is_of_every_source_with_its_stream() -> None:
    sources = [b"O > >", b"O a >", b"P > >", b"O:C=x > >"]
    assert [*Provenance(b"O", 7).among(sources)] == [b"O > >", b"O a >", b"O:C=x > >"]
    assert [*Provenance(b"O", 7, b"O a >").among(sources)] == [b"O a >"]
