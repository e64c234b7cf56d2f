"""A defect that only shadows find: the bytes of a record lack one of its fields."""

from collections.abc import Callable
from typing import Final
from unittest.mock import patch

import pytest

from headwater.jetstream.codec import record_codec
from headwater.jetstream.records import Removed
from tests.kit.shadows import shadowed

FAULT: Final = "the shadow has another"


def encode_without_sequences(record: Removed) -> bytes:
    """The bytes of a removal that names no message."""
    _, encode = _KIND_AND_ENCODER
    return encode(Removed([], record.erase))


_KIND_AND_ENCODER: Final = record_codec._ENCODERS[Removed]


def faults_without_a_field(run: Callable[[], object]) -> str:
    """The faults that shadows find while servers lose the sequences of removals. `run` has them
    remove a message. Raises Failed if the shadows find none."""
    encoders = {Removed: (_KIND_AND_ENCODER[0], encode_without_sequences)}
    with (
        patch.dict(record_codec._ENCODERS, encoders),
        pytest.raises(AssertionError) as caught,
        shadowed(),
    ):
        run()
    return str(caught.value)
