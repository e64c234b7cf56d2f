"""Backups that real nats-servers of several versions made: each comes back as it was."""

import base64
import json
from typing import Any, Final

import pytest

from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.filling import Rules
from headwater.jetstream.times import parse_time
from headwater.store.message_log import StoredMessage
from tests.unit.jetstream.backup.record import RECORDED
from tests.unit.jetstream.backup.taking_in import contents, pieces, taken_in

Document = dict[str, Any]

BACKUPS: Final[dict[str, Document]] = json.loads(RECORDED.read_text())
OBSERVED: Final = "OBSERVED"


def rules_of(recorded: Document) -> Rules:
    return Rules(stream_name=recorded["stream"], max_payload=1024 * 1024)


def messages_of(recorded: Document) -> list[StoredMessage]:
    return [
        StoredMessage(
            message["seq"],
            message["subject"].encode(),
            base64.b64decode(message.get("hdrs", "")),
            base64.b64decode(message.get("data", "")),
            parse_time(message["time"]),
        )
        for message in recorded["messages"]
    ]


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
@pytest.mark.parametrize("title", [title for title in BACKUPS if OBSERVED not in title])
def test_messages_gaps_and_sequences_come_back(title: str, size: int) -> None:
    recorded = BACKUPS[title]
    data = base64.b64decode(recorded["backup"])

    _, log = taken_in(pieces(data, size), rules_of(recorded))

    state = recorded["state"]
    assert contents(log) == messages_of(recorded)
    assert log.first_sequence == max(state["first_seq"], 1)
    assert log.last_sequence == state["last_seq"]
    assert log.deleted_count == state.get("num_deleted", 0)


@pytest.mark.parametrize("title", [title for title in BACKUPS if OBSERVED in title])
def test_consumers_are_refused_by_name(title: str) -> None:
    recorded = BACKUPS[title]
    data = base64.b64decode(recorded["backup"])

    with pytest.raises(BackupError, match="has a consumer"):
        taken_in([data], rules_of(recorded))


@pytest.mark.parametrize("title", [title for title in BACKUPS if "PLAIN" in title])
def test_cut_short_anywhere_it_is_refused(title: str) -> None:
    recorded = BACKUPS[title]
    data = base64.b64decode(recorded["backup"])

    for size in range(len(data)):
        with pytest.raises(BackupError):
            taken_in([data[:size]], rules_of(recorded))


@pytest.mark.parametrize("title", [title for title in BACKUPS if "PLAIN" in title])
def test_one_wrong_bit_anywhere_is_noticed_or_harmless(title: str) -> None:
    """Only bits of what is skipped may be wrong without notice."""
    recorded = BACKUPS[title]
    data = base64.b64decode(recorded["backup"])

    for place in range(len(data)):
        wrong = bytearray(data)
        wrong[place] ^= 1 << place % 8
        try:
            _, log = taken_in([bytes(wrong)], rules_of(recorded))
        except BackupError:
            continue
        assert contents(log) == messages_of(recorded)


@pytest.mark.parametrize("title", ["2.14.6 PLAIN", "2.15.1 PLAIN"])
def test_what_follows_the_end_is_ignored(title: str) -> None:
    recorded = BACKUPS[title]
    data = base64.b64decode(recorded["backup"])

    _, log = taken_in([data, b"whatever", b"else"], rules_of(recorded))

    assert contents(log) == messages_of(recorded)


@pytest.mark.parametrize("title", ["2.10.26 PLAIN", "2.14.6 PLAIN"])
def test_a_backup_of_files_is_of_one_stream(title: str) -> None:
    data = base64.b64decode(BACKUPS[title]["backup"])

    with pytest.raises(BackupError, match="stream names do not match"):
        taken_in([data], Rules(stream_name="OTHER", max_payload=1024 * 1024))


@pytest.mark.parametrize("title", ["2.10.26 PLAIN", "2.14.6 PLAIN", "2.15.1 PLAIN"])
def test_files_tell_when_a_stream_was_made_and_archives_do_not(title: str) -> None:
    recorded = BACKUPS[title]
    reader, _ = taken_in([base64.b64decode(recorded["backup"])], rules_of(recorded))

    first_ns = parse_time(recorded["state"]["first_ts"])

    assert (reader.created_ns == 0) == title.startswith("2.15")
    assert reader.created_ns < first_ns
