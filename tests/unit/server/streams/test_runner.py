"""A stream between broker, disk and clock: the answers to clients, and their times.

The disk does what a test says, and a sync takes until `finish_checks`: between the two lies what
these rules are about.
"""

from errno import EIO, ENOSPC
from typing import Any, Final

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream import error_codes
from headwater.jetstream.account import AccountLimits
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.streams import foreseeable, look_ahead
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.jetstream.streams.publishing.publishing import Publishing
from headwater.runtime.fsync import FLUSH_S
from headwater.server.configuration.options import AccountOptions, Options, UserOptions
from headwater.server.streams import runner as stream_runner
from headwater.server.streams.runner import StreamRunner
from headwater.store.log.message_log import Batch
from tests.kit.shadows import Shadows
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.stream_world import (
    AHEAD,
    JOURNAL,
    SEGMENT,
    STORE_FAILED,
    StreamWorld,
    error_code,
    json_bytes,
)

WRONG_SEQUENCE: Final = error_codes.STREAM_WRONG_LAST_SEQUENCE.err_code
NOT_FOUND: Final = error_codes.STREAM_NOT_FOUND.err_code
SEQUENCE_MAX: Final = (1 << 63) - 1


@pytest.fixture
def world() -> StreamWorld:
    """A stream S for which every ack waits for the disk."""
    made = StreamWorld()
    made.create("S", subjects=["s.>"])
    return made


def unsynced(**config: Any) -> StreamWorld:
    """A stream S for which no ack waits for the disk."""
    made = StreamWorld(Options(jetstream=streaming()))
    made.create("S", subjects=["s.>"], **config)
    return made


# --- a disk that fails --------------------------------------------------------------------------


def test_what_never_became_durable_is_not_acknowledged_as_a_duplicate(world: StreamWorld) -> None:
    world.publish("s.a", Nats_Msg_Id="0")
    world.sync()
    world.disk.fail("sync", AHEAD, code=EIO)
    first = world.publish("s.a", Nats_Msg_Id="1")
    world.sync()
    retry = world.publish("s.a", Nats_Msg_Id="1")
    world.sync()
    assert world.errors(first, retry) == [STORE_FAILED, STORE_FAILED]
    assert world.state()["messages"] == 1
    assert world.after_power_loss().state()["messages"] == 1


def test_what_was_only_in_memory_when_the_disk_failed_is_no_duplicate_either() -> None:
    world = unsynced(persist_mode="async")
    world.disk.fail("write", SEGMENT, code=ENOSPC, times=None)
    first = world.publish("s.a", Nats_Msg_Id="1")
    assert world.errors(first) == [0], "as promised for this mode, before it is written"
    world.advance(FLUSH_S)
    retry = world.publish("s.a", Nats_Msg_Id="1")
    assert world.errors(retry) == [STORE_FAILED]


def test_a_publish_is_refused_if_the_disk_fails_while_it_is_decided() -> None:
    world = unsynced(persist_mode="async", allow_msg_counter=True)
    first = world.publish("s.a", b"", Nats_Incr="+1")
    world.disk.fail("write", SEGMENT, code=EIO, times=None)
    second = world.publish("s.a", b"", Nats_Incr="+1")
    assert world.errors(first, second) == [0, STORE_FAILED]


def test_a_publish_whose_commit_can_not_even_begin_is_answered(world: StreamWorld) -> None:
    world.disk.fail("write", AHEAD, code=EIO, times=None)
    publishes = [world.publish("s.a", Nats_Msg_Id="1") for _ in range(3)]
    assert world.errors(*publishes) == [STORE_FAILED] * 3
    assert world.scheduler.offloaded == []


def test_whoever_waits_for_a_sync_that_fails_is_told(world: StreamWorld) -> None:
    world.publish("s.a")
    world.sync()
    world.disk.fail("sync", AHEAD, code=EIO)
    publishes = [world.publish("s.a") for _ in range(2)]
    purge = world.call("STREAM.PURGE.S")
    world.sync()
    assert world.errors(*publishes, purge) == [STORE_FAILED] * 3


def test_a_change_that_is_made_and_not_sure_when_the_disk_fails_is_told(
    world: StreamWorld,
) -> None:
    world.publish("s.a")
    world.sync()
    world.disk.fail("sync", AHEAD, code=EIO)
    purge = world.call("STREAM.PURGE.S")
    world.sync()
    assert world.errors(purge) == [STORE_FAILED]


def test_a_change_that_fails_leaves_no_publish_behind_it_acknowledged(world: StreamWorld) -> None:
    """Publishes written while a stream fails are in no commit: none may be acknowledged."""
    world.publish("s.a")
    purge = world.call("STREAM.PURGE.S")
    behind = world.publish("s.a")
    world.disk.fail("write", JOURNAL, code=EIO, times=None)
    world.sync()
    assert world.errors(purge, behind) == [error_codes.STREAM_OFFLINE_REASON.err_code, STORE_FAILED]
    assert len(world.complaints) == 1


def test_what_has_to_go_goes_also_without_room_for_the_journal() -> None:
    world = unsynced(max_msgs=1, allow_atomic=True)
    world.publish("s.a")
    world.disk.fail("write", JOURNAL, code=ENOSPC, times=None)
    batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "1", "Nats_Batch_Commit": "1"}
    # Two records in one turn: the journal is written behind both.
    publishes = [world.push("s.a", b"x"), world.push("s.a", b"x", **batch)]
    world.settle()
    assert [world.answers[each]["seq"] for each in publishes] == [2, 3]
    world.disk.heal()
    world.disk.kill()
    for at in (world, StreamWorld(world.node.options, world.disk)):
        state = at.state()
        assert (state["messages"], state["first_seq"], state["last_seq"]) == (1, 3, 3)


def test_of_one_turn_only_that_fails_which_is_not_stored() -> None:
    """A client that is told of a failure publishes again, and its message would be stored twice."""
    world = unsynced(allow_atomic=True)
    world.publish("s.a", Nats_Msg_Id="old")
    batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "1", "Nats_Batch_Commit": "1"}
    world.disk.fail("write", SEGMENT, code=ENOSPC, times=None)
    # Two records: the messages before the batch, and the batch with the messages behind it.
    publishes = [
        world.push("s.a", b"x", Nats_Msg_Id="old"),
        world.push("s.a", b"x"),
        world.push("s.a", b"x", **batch),
        world.push("s.a", b"x", Nats_Msg_Id="old"),
    ]
    world.settle()
    assert world.errors(*publishes) == [0, STORE_FAILED, STORE_FAILED, STORE_FAILED]
    assert world.answers[publishes[0]]["duplicate"]
    assert world.state()["last_seq"] == 1


def test_where_the_disk_has_to_be_sure_an_entry_that_fails_is_refused_as_a_whole() -> None:
    world = StreamWorld()
    world.create("S", subjects=["s.>"], allow_atomic=True)
    batch = {"Nats_Batch_Id": "b", "Nats_Batch_Sequence": "1", "Nats_Batch_Commit": "1"}
    world.disk.fail("write", SEGMENT, code=EIO, times=None)
    publishes = [world.push("s.a", b"x"), world.push("s.a", b"x", **batch)]
    world.settle()
    world.sync()
    assert world.errors(*publishes) == [STORE_FAILED, STORE_FAILED]
    assert world.state()["last_seq"] == 0
    world.disk.heal()
    assert world.after_power_loss().state()["messages"] == 2, "the entry is on the disk"


def test_a_stream_that_can_not_be_written_has_nothing_due() -> None:
    world = unsynced(max_age=2 * NS_PER_S, duplicate_window=NS_PER_S)
    world.publish("s.a")
    world.disk.fail("write", JOURNAL, code=EIO, times=None)
    world.advance(60)
    assert len(world.complaints) == 1, "told once, not every time that it is tried"


# --- changes in their turn ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "body"),
    [("STREAM.PURGE.S", None), ("STREAM.MSG.DELETE.S", {"seq": 1, "no_erase": True})],
)
def test_what_a_request_has_removed_stays_removed_from_its_answer_on(
    world: StreamWorld, operation: str, body: object
) -> None:
    world.publish("s.a")
    world.sync()
    change = world.call(operation, body)
    assert change not in world.answers, "the disk is not sure yet"
    world.sync()
    assert world.answers[change]["success"]
    assert world.after_power_loss().state()["messages"] == 0


def test_a_request_that_changes_nothing_is_answered_at_once(world: StreamWorld) -> None:
    sealed = world.call("STREAM.MSG.DELETE.S", {"seq": 7})
    assert world.errors(sealed) == [error_codes.STREAM_MSG_DELETE_FAILED.err_code]


def test_a_purge_takes_what_was_published_before_it_and_nothing_else(world: StreamWorld) -> None:
    world.publish("s.a")
    world.sync()
    before = [world.publish("s.a") for _ in range(3)]
    purge = world.call("STREAM.PURGE.S")
    after = world.publish("s.b")
    seen = world.state()
    assert (seen["messages"], seen["last_seq"]) == (1, 1), "nothing of it has happened yet"
    assert not world.answers.keys() & {*before, purge, after}
    world.sync()
    assert world.answers[purge]["purged"] == 4
    assert [world.answers[number]["seq"] for number in (*before, after)] == [2, 3, 4, 5]
    state = world.state(subjects_filter=">")
    assert (state["messages"], state["first_seq"], state["subjects"]) == (1, 5, {"s.b": 1})


def test_what_is_published_after_a_purge_begins_where_that_says(world: StreamWorld) -> None:
    world.publish("s.a")
    purge = world.call("STREAM.PURGE.S", {"seq": 50})
    behind = [world.publish("s.a") for _ in range(3)]
    world.sync()
    assert world.answers[purge]["purged"] == 1
    assert [world.answers[number]["seq"] for number in behind] == [50, 51, 52]


def _push_call(world: StreamWorld, operation: str, body: object) -> int:
    """Call the API in a turn that goes on."""
    return world.push(f"$JS.API.{operation}", json_bytes(body))


@pytest.mark.parametrize("purge", [{"seq": 3}, {"seq": 50}, {"keep": 1}, {"filter": "s.*"}])
def test_publishes_behind_a_purge_are_decided_while_it_waits_for_the_disk(
    world: StreamWorld, purge: dict[str, object]
) -> None:
    for subject in ("s.a", "s.b", "s.a"):
        world.publish(subject)
    world.sync()
    numbers = [_push_call(world, "STREAM.PURGE.S", purge), world.push("s.b"), world.push("s.a")]
    world.settle()
    assert _stream(world, "S").look_ahead.messages == 2
    world.sync()
    assert world.errors(*numbers) == [0, 0, 0]
    state = world.state()
    assert world.answers[numbers[-1]]["seq"] == state["last_seq"]
    assert world.after_power_loss().state() == state


def test_publishes_behind_an_update_are_decided_by_it_while_it_waits_for_the_disk(
    world: StreamWorld,
) -> None:
    for _ in range(3):
        world.publish("s.a", b"x")
    world.sync()
    config = {"name": "S", "subjects": ["s.>"], "max_msgs": 2, "max_msg_size": 10}
    update = _push_call(world, "STREAM.UPDATE.S", config)
    numbers = [world.push("s.a", b"x" * 11), world.push("s.a", b"x")]
    world.settle()
    assert _stream(world, "S").look_ahead.messages == 1
    world.sync()
    too_large = error_codes.STREAM_MESSAGE_EXCEEDS_MAXIMUM.err_code
    assert world.errors(update, *numbers) == [0, too_large, 0]
    state = world.state()
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (2, 3, 4)
    assert world.after_power_loss().state() == state


def test_publishes_behind_a_change_that_is_not_foreseen_wait_for_one_commit_and_in_order(
    world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreseeable, "FORESEEN_SINGLY_MAX", 1)
    world.create("T", subjects=["t.>"])
    for _ in range(3):
        world.publish("s.a")
    world.sync()
    purge = _push_call(world, "STREAM.PURGE.S", {"keep": 1})
    behind = [world.push("s.a"), world.push("s.b")]
    second = _push_call(world, "STREAM.PURGE.S", {})
    last, other = world.push("s.c"), world.push("t.a")
    world.settle()
    assert _stream(world, "S").look_ahead.messages == 0
    world.finish_checks()
    assert world.errors(purge) == [0]
    assert not world.answers.keys() & {*behind, second, last}
    world.finish_checks()
    assert world.errors(other) == [0], "another stream waits for the disk only"
    assert [world.answers[number]["seq"] for number in behind] == [4, 5]
    world.sync()
    assert (world.answers[second]["purged"], world.answers[last]["seq"]) == (3, 6)


def test_publishes_and_changes_happen_in_the_order_in_which_they_came(world: StreamWorld) -> None:
    """The order holds however often publishes and changes wait for each other and for the disk."""
    publishes, purges = [], []
    for count in (1, 2, 3, 4):
        publishes += [world.publish("s.a") for _ in range(count)]
        purges.append(world.call("STREAM.PURGE.S"))
    publishes.append(world.publish("s.b"))
    for _ in range(12):
        world.finish_checks()
        publishes.append(world.publish("s.b"))
    world.sync()
    assert [world.answers[number]["purged"] for number in purges] == [1, 2, 3, 4]
    sequences = [world.answers[number]["seq"] for number in publishes]
    assert sequences == [*range(1, len(publishes) + 1)]
    assert world.state()["messages"] == len(publishes) - 10


def test_a_message_is_judged_by_the_settings_under_which_it_was_published() -> None:
    world = StreamWorld()
    world.create("S", subjects=["s.>"], allow_rollup_hdrs=True)
    for _ in range(2):
        world.publish("s.a")
    world.sync()
    roll_up = world.publish("s.a", Nats_Rollup="sub")
    update = world.call("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"]})
    world.sync()
    assert world.errors(roll_up, update) == [0, 0]
    assert world.state()["messages"] == 1
    assert not world.answers[update]["config"]["allow_rollup_hdrs"]


def test_a_message_is_judged_by_settings_that_wait_before_it() -> None:
    world = StreamWorld()
    world.create("S", subjects=["s.>"], allow_rollup_hdrs=True)
    world.publish("s.a")
    world.call("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"]})
    roll_up = world.publish("s.a", Nats_Rollup="sub")
    world.sync()
    assert world.errors(roll_up) == [error_codes.STREAM_ROLLUP_FAILED.err_code]


def test_all_that_follows_from_one_commit_shares_the_next(world: StreamWorld) -> None:
    """Purges share the sync of the publishes before them; one sync is under way at a time."""
    world.create("T", subjects=["t.>"])
    publishes = [world.publish(subject) for subject in ("s.a", "s.a", "t.a")]
    purges = [world.call(f"STREAM.PURGE.{name}") for name in "ST"]
    for _ in range(2):
        assert len(world.scheduler.offloaded) == 1
        world.finish_checks()
    assert world.errors(*publishes, *purges) == [0] * 5
    survivor = world.after_power_loss()
    assert [survivor.state(name)["messages"] for name in "ST"] == [0, 0]


# --- streams that go ----------------------------------------------------------------------------


def test_who_waits_for_a_stream_that_is_deleted_is_told(world: StreamWorld) -> None:
    made = deleting(world)
    publish = world.publish("s.a")
    purge = world.call("STREAM.PURGE.S")
    assert not {made, publish, purge} & {*world.answers}
    world.sync()
    assert world.errors(publish, purge, made) == [NOT_FOUND, NOT_FOUND, 0]
    assert world.complaints == []


def test_a_publish_that_shares_the_sync_of_a_deletion_is_confirmed_before_it(
    world: StreamWorld,
) -> None:
    world.publish("s.a")
    waiting = [world.publish("s.a"), deleting(world)]
    world.sync()
    assert world.errors(*waiting) == [0, 0]
    assert [*world.answers][-2:] == waiting


def deleting(world: StreamWorld) -> int:
    """Have another client ask for the deletion of the stream, which waits for the disk."""
    number = world.push_from(world.modern(), "$JS.API.STREAM.DELETE.S")
    world.settle()
    return number


def test_a_change_whose_answer_waits_is_told_too(world: StreamWorld) -> None:
    world.publish("s.a")
    world.sync()
    deleting(world)
    purge = world.call("STREAM.PURGE.S")
    world.sync()
    assert world.errors(purge) == [NOT_FOUND]


def test_a_stream_may_go_because_of_a_message_of_another(world: StreamWorld) -> None:
    """A commit goes on to all other streams when a message of one of them removes a stream."""
    world.create("T", subjects=["t"])
    world.create("U", subjects=["u"])
    dest = "$JS.API.STREAM.DELETE.T"
    republish = {"src": "go", "dest": dest, "headers_only": True}
    world.create("R", subjects=["go"], republish=republish)
    numbers = [world.publish(subject, b"") for subject in ("go", "t", "u", "s.a")]
    world.sync()
    assert world.errors(*numbers) == [0, 0, 0, 0], "those of T share the sync of its deletion"
    numbers = [world.publish(subject, b"") for subject in ("u", "s.a")]
    world.sync()
    assert world.errors(*numbers) == [0, 0]
    assert world.errors(world.call("STREAM.INFO.T")) == [NOT_FOUND]


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_what_was_published_before_an_account_is_purged_is_taken_in_first(storage: str) -> None:
    accounts = (
        AccountOptions("A", (UserOptions("user", "p", "A"),), jetstream=AccountLimits()),
        AccountOptions("$SYS", (UserOptions("system", "p", "$SYS"),)),
    )
    world = StoredWorld(Options(jetstream=streaming(), accounts=accounts)).start()
    user = world.modern(user="user", password="p")
    system = world.modern(user="system", password="p")
    config = json_bytes({"name": "S", "subjects": ["s"], "storage": storage})
    line = b"SUB inbox 9\r\nPUB $JS.API.STREAM.CREATE.S inbox %d\r\n" % len(config)
    user.ask(line + config + b"\r\n")
    world.finish_checks()
    user.push(b"PUB s inbox 1\r\nx\r\n")
    reply = system.ask(b"SUB inbox 9\r\nPUB $JS.API.ACCOUNT.PURGE.A inbox 0\r\n\r\n")
    world.finish_checks()
    assert b'"initiated":true' in reply + system.take()
    assert b'{"stream":"S","seq":1}' in user.take()


# --- one stream and the others ------------------------------------------------------------------


def test_a_bug_that_shows_at_one_stream_does_not_silence_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = unsynced()
    world.create("T", subjects=["t"])
    stream = _stream(world, "S")

    decide = Publishing.decide

    def fail_at_one(publishing: Publishing, incoming: Incoming, now_ns: int) -> Proposal[Record]:
        if publishing is stream.publishing:
            raise RuntimeError("a bug")
        return decide(publishing, incoming, now_ns)

    with monkeypatch.context() as planted:
        planted.setattr(Publishing, "decide", fail_at_one)
        world.push("s.a")
        publish = world.push("t")
        with pytest.raises(RuntimeError, match="a bug"):
            world.settle()
    world.settle()
    assert world.errors(publish) == [0]
    assert world.errors(world.publish("t"), world.publish("s.a")) == [0, 0]


def _stream(world: StreamWorld, name: str) -> Any:
    jetstream = world.node.jetstream
    assert jetstream is not None
    return jetstream.accounts["$G"].streams[name]


# --- due messages -------------------------------------------------------------------------------


def test_what_is_due_is_decided_once_however_long_the_disk_takes(world: StreamWorld) -> None:
    world.create("T", subjects=["t.>"], max_age=NS_PER_S, duplicate_window=NS_PER_S)
    world.publish("t.a")
    world.sync()
    decided = _count_decisions(world)
    world.advance(0.9)
    world.publish("t.b")
    world.advance(0.5)
    assert decided() == 1
    assert world.state("T")["messages"] == 1, "what goes does so after what came before"
    world.sync()
    assert world.state("T")["messages"] == 1
    assert world.state("T")["first_seq"] == 2
    world.advance(1)
    assert world.state("T")["messages"] == 0


def test_due_messages_come_behind_a_purge_that_gives_sequences_away(world: StreamWorld) -> None:
    markers = {"allow_msg_ttl": True, "subject_delete_marker_ttl": NS_PER_S}
    world.create("T", subjects=["t.>"], allow_rollup_hdrs=True, **markers)
    world.publish("t.a", Nats_TTL="1")
    world.sync()
    purge = world.call("STREAM.PURGE.T", {"seq": 50})
    world.advance(2)
    world.sync()
    assert world.errors(purge) == [0]
    assert world.state("T")["last_seq"] == 49, "the message was purged before it expired"
    assert world.complaints == []


def _count_decisions(world: StreamWorld) -> Any:
    stream = _stream(world, "T")
    decide = stream.decide_due
    calls = []

    def counted(now_ns: int) -> Proposal[Record]:
        calls.append(now_ns)
        found: Proposal[Record] = decide(now_ns)
        return found

    stream.decide_due = counted
    return lambda: len(calls)


# --- the end ------------------------------------------------------------------------------------


def test_a_server_that_stops_answers_whoever_waits_for_the_disk(world: StreamWorld) -> None:
    first = world.publish("s.a")
    behind = world.publish("s.a")
    purge = world.call("STREAM.PURGE.S")
    last = world.publish("s.b")
    assert len(world.scheduler.offloaded) == 1
    world.node.close_jetstream()
    world.settle()
    assert len(world.scheduler.offloaded) == 1, "the files are closed: no other sync begins"
    assert world.errors(first, behind, purge, last) == [0] * 4
    assert world.after_power_loss().state()["messages"] == 1


def test_a_server_that_stops_gives_the_disk_nothing_more_to_do(world: StreamWorld) -> None:
    """The files are closed next: nothing may be under way in them."""
    publish = world.push("s.a")
    world.node.close_jetstream()
    world.settle()
    assert world.errors(publish) == [0]
    assert world.scheduler.offloaded == []


def test_a_stream_that_comes_back_and_can_not_be_written_is_told(shadows: Shadows) -> None:
    world = unsynced(max_msgs_per_subject=1)
    world.create("T", subjects=["t"])
    stream = _stream(world, "S")
    world.publish("s.a")
    shadows.leave(stream)
    # A crash leaves the message stored, and its effects not carried out.
    stream.log.append(Batch([b"s.a"], [b""], [b"x"], [world.clock.wall_ns()]))
    world.disk.kill()
    world.disk.fail("write", JOURNAL, code=EIO, times=None)
    after = StreamWorld(world.node.options, world.disk)
    assert len(after.complaints) == 1
    assert after.state()["messages"] == 1
    assert after.errors(after.publish("s.a"), after.publish("t")) == [STORE_FAILED, 0]


def test_whether_the_disk_is_being_waited_for_is_known(world: StreamWorld) -> None:
    jetstream = world.node.jetstream
    assert jetstream is not None
    assert not jetstream.is_busy
    world.publish("s.a")
    assert jetstream.is_busy
    world.sync()
    assert not jetstream.is_busy


# --- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_sequences_are_always_left_to_give_out(storage: str) -> None:
    world = unsynced(storage=storage)
    largest = world.create("T", storage=storage, first_seq=SEQUENCE_MAX)
    assert largest["state"]["first_seq"] == SEQUENCE_MAX
    publishes = [world.publish("t") for _ in range(2)]
    assert [world.answers[number]["seq"] for number in publishes] == [
        SEQUENCE_MAX,
        SEQUENCE_MAX + 1,
    ]
    refused = world.create("U", storage=storage, first_seq=SEQUENCE_MAX + 1)
    assert error_code(refused) == error_codes.STREAM_INVALID_CONFIG.err_code
    world.publish("s.a")
    beyond = [world.call("STREAM.PURGE.S", {"seq": seq}) for seq in (SEQUENCE_MAX + 1, 2**64 - 1)]
    assert world.errors(*beyond) == [error_codes.BAD_REQUEST.err_code] * 2
    assert world.state()["messages"] == 1
    assert world.errors(world.call("STREAM.PURGE.S", {"seq": SEQUENCE_MAX})) == [0]
    last = world.publish("s.a")
    assert world.answers[last]["seq"] == SEQUENCE_MAX


# --- waiting messages and due work --------------------------------------------------------------


def test_no_more_messages_wait_for_the_disk_than_recovery_looks_at(
    world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_runner, "IN_FLIGHT_MESSAGES_MAX", 3)
    monkeypatch.setattr(look_ahead, "IN_FLIGHT_MESSAGES_MAX", 3)
    assert world.node.jetstream is not None
    in_flight = world.node.jetstream.accounts["$G"].streams["S"].look_ahead
    first = [world.push("s.a", b"x") for _ in range(5)]
    world.settle()
    assert in_flight.messages == 3
    then = [world.publish("s.a", Nats_Expected_Last_Sequence=str(number)) for number in (5, 5)]
    change = world.call("STREAM.PURGE.S")
    last = world.publish("s.a")
    assert in_flight.messages == 3
    world.sync()
    assert world.errors(*first, *then, change, last) == [0] * 6 + [WRONG_SEQUENCE, 0, 0]
    assert world.answers[change]["purged"] == 6
    assert world.answers[last]["seq"] == 7


def test_a_commit_is_told_to_those_who_wait_for_it(
    world: StreamWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    committed = StreamRunner.committed

    def noting(runner: StreamRunner) -> None:
        told.append(runner.stream.name)
        committed(runner)

    monkeypatch.setattr(StreamRunner, "committed", noting)
    world.create("T", subjects=["t"])
    world.publish("s.a")
    world.sync()
    assert told == ["S"]
    world.publish("t")
    world.publish("s.a")
    world.sync()
    assert set(told[1:]) == {"S", "T"}
    told.clear()
    world.advance(600)
    assert told == []


def test_everything_is_done_when_it_is_due_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    world = StreamWorld(Options(jetstream=streaming()))
    asked = []
    run_due = StreamRunner.run_due

    def noting(runner: StreamRunner, now_ns: int) -> None:
        asked.append(runner.stream.name)
        run_due(runner, now_ns)

    monkeypatch.setattr(StreamRunner, "run_due", noting)
    for name, seconds in (("A", 3), ("B", 1), ("C", 2), ("GONE", 1)):
        limits = {"max_age": seconds * NS_PER_S, "duplicate_window": NS_PER_S}
        world.create(name, subjects=[name], **limits)
        world.publish(name)
    world.create("IDLE", subjects=["idle"])
    world.publish("idle")
    world.call("STREAM.DELETE.GONE")
    world.advance(0.5)
    world.publish("B")
    world.advance(0.6)
    assert asked == ["B"]
    assert [world.state(name)["messages"] for name in "ABC"] == [1, 1, 1]
    world.advance(2)
    assert asked == ["B", "B", "C", "A"]
    assert [world.state(name)["messages"] for name in "ABC"] == [0, 0, 0]


def test_what_one_stream_has_to_do_late_keeps_no_other_waiting() -> None:
    world = StreamWorld(Options(jetstream=streaming()))
    for name, seconds in (("LATE", 3600), ("SOON", 2)):
        limits = {"max_age": seconds * NS_PER_S, "duplicate_window": NS_PER_S}
        world.create(name, subjects=[name], allow_msg_ttl=True, **limits)
    world.publish("LATE")
    world.publish("LATE", Nats_TTL="1")
    world.publish("SOON")
    world.advance(1.5)
    assert [world.state(name)["messages"] for name in ("LATE", "SOON")] == [1, 1]
    world.advance(1)
    assert [world.state(name)["messages"] for name in ("LATE", "SOON")] == [1, 0]
