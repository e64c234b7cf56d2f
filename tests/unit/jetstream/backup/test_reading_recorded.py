"""Backups that real nats-servers of several versions made: each comes back as it was."""

import base64
import json
from typing import Any, Final

import pytest

from headwater.go.json import write
from headwater.go.times import parse_time
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.filling import Rules
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.message_log import StoredMessage
from tests.kit.recorded.record_backups import NS_PER_S, RECORDED
from tests.unit.jetstream.backup.taking_in import NOW_NS, contents, pieces, stream_of, taken_in

Document = dict[str, Any]

BACKUPS: Final[dict[str, Document]] = json.loads(RECORDED.read_text())
# Consumers with messages that are not delivered again, and servers that do not write that down.
GIVEN_UP: Final = ("GIVEN-UP", "GIVEN-UP-LONG-AGO")
FORGETFUL: Final = ("2.10", "2.12")
OBSERVED: Final = [title for title in BACKUPS if title.endswith(" OBSERVED")]


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
@pytest.mark.parametrize("title", BACKUPS)
def test_messages_gaps_and_sequences_come_back(title: str, size: int) -> None:
    recorded = BACKUPS[title]
    data = base64.b64decode(recorded["backup"])

    _, log = taken_in(pieces(data, size), rules_of(recorded))

    state = recorded["state"]
    assert contents(log) == messages_of(recorded)
    assert log.first_sequence == max(state["first_seq"], 1)
    assert log.last_sequence == state["last_seq"]
    assert log.deleted_count == state.get("num_deleted", 0)


def restored(title: str) -> Stream:
    """The stream that comes of a recorded backup."""
    recorded = BACKUPS[title]
    reader, log = taken_in([base64.b64decode(recorded["backup"])], rules_of(recorded))
    return stream_of(reader, log, StreamConfig(name=recorded["stream"]))


def figures(info: Document) -> Document:
    """The fields of a consumer's info that depend neither on the moment nor on the server."""
    config = info["config"]
    # A restored consumer reports the name that it was given also in its configuration.
    config.setdefault("name", info["name"])
    for place in ("delivered", "ack_floor"):
        info[place].pop("last_active", None)
    if config.get("max_deliver") == 1:
        # The count of messages that were given up is not reported any more.
        info["num_redelivered"] = 0
    kept = ("config", "delivered", "ack_floor", "num_ack_pending", "num_redelivered", "num_pending")
    return {key: info[key] for key in kept}


@pytest.mark.parametrize("title", OBSERVED)
def test_consumers_come_back_as_they_were(title: str) -> None:
    stream = restored(title)
    shown = {
        consumer.name: figures(json.loads(write(consumer.info(NOW_NS))))
        for consumer in stream.consumers
    }
    expected = {info["name"]: figures(info) for info in BACKUPS[title]["consumers"]}
    if not title.startswith("2.15"):
        # Consumers in memory are left out.
        del expected["MEMORY"]
    if title.startswith(FORGETFUL):
        for name in GIVEN_UP:
            del shown[name], expected[name]

    assert shown == expected


@pytest.mark.parametrize("title", OBSERVED)
def test_what_is_not_acknowledged_comes_back(title: str) -> None:
    """Pending messages have the time at which they were stored; before 2.15 in seconds."""
    consumers = restored(title).consumers
    stored_ns = {
        message["seq"]: parse_time(message["time"]) for message in BACKUPS[title]["messages"]
    }
    unit_ns = 1 if title.startswith("2.15") else NS_PER_S

    explicit = consumers.find("EXPLICIT").state
    assert explicit.pending == {2: 2, 3: 3, 5: 5, 6: 6}
    assert explicit.redelivered == {2: 1}
    assert {each: sent_ns // unit_ns for each, sent_ns in explicit.sent_ns.items()} == {
        each: stored_ns[each] // unit_ns for each in explicit.pending
    }
    assert consumers.find("PASSING").state.pending == {2: 1, 4: 2}
    assert consumers.find("ALL").state.pending == {3: 3, 4: 4}
    for name in GIVEN_UP:
        given_up = consumers.find(name).state
        is_known = not title.startswith(FORGETFUL)
        assert [*given_up.pending] == ([] if is_known else [1, 2])
        assert given_up.redelivered == ({1: 1, 2: 1} if is_known else {})


@pytest.mark.parametrize("title", OBSERVED)
def test_files_tell_when_a_consumer_was_made_and_archives_do_not(title: str) -> None:
    created = {info["name"]: parse_time(info["created"]) for info in BACKUPS[title]["consumers"]}

    for consumer in restored(title).consumers:
        expected_ns = NOW_NS if title.startswith("2.15") else created[consumer.name]
        # Old servers write the time down a moment after they have reported it.
        assert abs(consumer.created_ns - expected_ns) < NS_PER_S


@pytest.mark.parametrize("title", [title for title in BACKUPS if "PLAIN" in title])
def test_cut_short_anywhere_it_is_refused(title: str) -> None:
    recorded = BACKUPS[title]
    data = base64.b64decode(recorded["backup"])

    for size in range(len(data)):
        with pytest.raises(BackupError):
            taken_in([data[:size]], rules_of(recorded))


@pytest.mark.parametrize("title", [title for title in BACKUPS if "PLAIN" in title])
def test_one_wrong_bit_anywhere_is_noticed_or_harmless(title: str) -> None:
    """Only bits of skipped bytes may be wrong without notice."""
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
