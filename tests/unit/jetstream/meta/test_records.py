"""Records of the meta group: a request is kept as far as a record has room for it."""

from headwater.jetstream.meta.codec import decode_record, encode_record
from headwater.jetstream.meta.records import (
    CLIENT_BYTES_MAX,
    REQUEST_BYTES_MAX,
    SUBJECT_BYTES_MAX,
    AnswerTo,
    ServerRemoved,
)


def test_a_request_is_kept_up_to_the_limits() -> None:
    kept = AnswerTo.bounded(
        "A",
        b"s" * SUBJECT_BYTES_MAX,
        b"r" * SUBJECT_BYTES_MAX,
        b"c" * CLIENT_BYTES_MAX,
        b"q" * REQUEST_BYTES_MAX,
    )
    assert kept is not None
    assert (len(kept.client), len(kept.request)) == (CLIENT_BYTES_MAX, REQUEST_BYTES_MAX)
    record = ServerRemoved("s1", kept)
    assert decode_record(encode_record(record)) == record


def test_a_long_request_is_cut_and_a_long_description_of_its_client_left_out() -> None:
    cut = AnswerTo.bounded(
        "A", b"s", b"r", b"c" * (CLIENT_BYTES_MAX + 1), b"q" * (REQUEST_BYTES_MAX + 1)
    )
    assert cut == AnswerTo("A", b"s", b"r", b"", b"q" * REQUEST_BYTES_MAX)


def test_a_request_whose_subjects_are_too_long_cannot_be_answered() -> None:
    long = b"x" * (SUBJECT_BYTES_MAX + 1)
    assert AnswerTo.bounded("A", long, b"r", b"", b"") is None
    assert AnswerTo.bounded("A", b"s", long, b"", b"") is None
