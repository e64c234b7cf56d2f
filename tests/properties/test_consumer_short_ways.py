"""The short ways between consumers and their clients end where the long ways do.

Messages, requests and acknowledgements that come many at a time are handled at once where they are
alike; each of these ways is compared with the one on which they are looked at one by one.
"""

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.jetstream.consumers.acks import AckAddress, read_address, read_sequences
from headwater.jetstream.consumers.pull import NO_PRIORITY, PullDocument, PullQueue, PullRequest
from headwater.jetstream.consumers.push import WINDOW_BYTES_MIN, FlowWindow
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.subjects.index import SubscriptionIndex
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.stored_world import StoredWorld
from tests.kit.world import Peer

HOME = (b"_", b"hash")
NOW_NS = 1_000

# --- subjects of acknowledgements ---------------------------------------------------------------

numbers = st.sampled_from([b"1", b"2", b"33", b"0", b"007", b"1" * 19, b"1" * 20, b"x", b"", b"-1"])
good_numbers = st.integers(1, 99).map(lambda number: b"%d" % number)


@st.composite
def ack_subjects(draw: st.DrawFn) -> bytes:
    """Subjects of acknowledgements, nearly all of them valid."""
    if draw(st.integers(0, 9)):
        tokens = [b"S", b"C", b"1", draw(good_numbers), b"2", b"3", b"4"]
    else:
        names = draw(st.sampled_from([[b"S", b"C"], [b"S", b"D"], [b"_", b"hash", b"S", b"C"]]))
        tokens = [*names, *draw(st.lists(numbers, max_size=6))]
    return b".".join([b"$JS.ACK", *tokens])


@settings(max_examples=300)
@given(st.lists(ack_subjects(), min_size=1, max_size=6))
def test_sequences_are_what_addresses_say(subjects: list[bytes]) -> None:
    told = read_sequences(subjects)
    if told is None:
        return
    stream, consumer, sequences = told
    addresses = [read_address(subject, HOME) for subject in subjects]
    assert [each and each[:2] for each in addresses] == [(stream, consumer)] * len(subjects)
    assert [each and each.stream_sequence for each in addresses] == sequences


def test_usual_acknowledgements_are_read_together() -> None:
    subjects = [b"$JS.ACK.S.C.1.%d.7.1763.0" % number for number in (3, 1, 2)]
    assert read_sequences(subjects) == (b"S", b"C", [3, 1, 2])
    assert read_address(subjects[0], HOME) == AckAddress(b"S", b"C", 1, 3, 7)


# --- requests -----------------------------------------------------------------------------------


@st.composite
def requests(draw: st.DrawFn) -> PullRequest:
    reply, batch = draw(st.sampled_from([b"a", b"b", b"c", b"gone"])), draw(st.integers(0, 5))
    request = PullRequest(reply, PullDocument(batch=batch), 0)
    request.heartbeat_ns = draw(st.sampled_from([0, 50]))
    request.no_wait = draw(st.booleans())
    request.expires_ns = draw(st.sampled_from([0, 0, NOW_NS + 1, NOW_NS]))
    request.bytes_left = draw(st.sampled_from([0, 0, 0, 100]))
    request.priority = draw(st.sampled_from([NO_PRIORITY] * 4 + [1]))
    return request


def queue_of(waiting: list[PullRequest]) -> PullQueue:
    queue = PullQueue(100, lambda reply: reply != b"gone", None)
    for request in waiting:
        copy = PullRequest(request.reply, PullDocument(batch=request.left), 0)
        for name in PullRequest.__slots__:
            setattr(copy, name, getattr(request, name))
        queue.add(copy, 1_000_000, 0, Proposal())
    return queue


def state_of(queue: PullQueue) -> object:
    waiting = [
        {name: getattr(request, name) for name in PullRequest.__slots__}
        for request in queue.waiting
    ]
    return queue.wanted, queue.hurried, queue.active_ns, waiting


@settings(max_examples=300)
@given(st.lists(requests(), max_size=5), st.integers(1, 12))
def test_messages_are_shared_as_one_by_one(waiting: list[PullRequest], count: int) -> None:
    together, apart = queue_of(waiting), queue_of(waiting)
    before = state_of(together)
    out: Proposal[Record] = Proposal()
    out_apart: Proposal[Record] = Proposal()
    receivers = together.share(count, NOW_NS, out)
    if not receivers:
        assert state_of(together) == before
        return
    one_by_one = []
    for _ in range(count):
        request = apart.next(10, NOW_NS, out_apart)
        if request is None:
            break
        one_by_one.append(request.reply)
        apart.served(request, 1, NOW_NS, out_apart)
    assert receivers == one_by_one
    assert state_of(together) == state_of(apart)
    assert out.at_once == out_apart.at_once == []


# --- windows ------------------------------------------------------------------------------------


def step(window: FlowWindow, sizes: list[int], together: bool) -> tuple[int, list[int]]:
    """Send what the window takes; the number sent, and the numbers after which it asked."""
    sent, asked = 0, []
    while sent < len(sizes) and window.is_open:
        if together:
            sent += window.sent_all(sizes[sent:])
            is_due = window.is_due
        else:
            is_due = window.sent(sizes[sent])
            sent += 1
        if is_due:
            window.ask(0)
            asked.append(sent)
    return sent, asked


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.sampled_from([1, 1000, WINDOW_BYTES_MIN // 4, WINDOW_BYTES_MIN]), max_size=9
            ),
            st.sampled_from(["confirm", "confirm", "ask", "wait"]),
        ),
        max_size=6,
    )
)
def test_a_window_is_filled_as_one_by_one(turns: list[tuple[list[int], str]]) -> None:
    windows = [FlowWindow(b"$JS.FC.S.C.", SeededEntropy(labelled_rng(1))) for _ in range(2)]
    for sizes, then in turns:
        together, apart = (step(window, sizes, window is windows[0]) for window in windows)
        assert together == apart
        for window in windows:
            if then == "confirm":
                window.confirm(window.asked, 0)
            elif then == "ask" and not window.asked:
                # Heartbeats ask too, however little was sent.
                window.ask(0)
        states = [
            [getattr(window, name) for name in FlowWindow.__slots__ if name != "_entropy"]
            for window in windows
        ]
        assert states[0] == states[1]


# --- routes -------------------------------------------------------------------------------------

ack_patterns = st.sampled_from(
    [
        *(b"$JS.ACK.>", b"$JS.ACK.>", b"$JS.ACK.*", b"$JS.ACK.S.C.1", b"$JS.ACK.S.*.1"),
        *(b"$JS.ACK.S.C.*", b"$JS.>", b"$JS.*.>", b"$JS.API.>", b"$JS.API.x", b"$JS.*"),
        *(b"*.ACK.>", b">", b"a.>", b"*", b"*.*", b"$JS.ACK", b"x.ACK.y"),
    ]
)
below = st.sampled_from([b"$JS.ACK.S.C.1", b"$JS.ACK.x", b"$JS.ACK.S.C.2.3", b"$JS.ACK.S.D.1"])


@settings(max_examples=300)
@given(st.lists(ack_patterns, max_size=6), st.lists(st.integers(0, 5), max_size=3), below)
def test_one_route_for_all_is_the_route_of_each(
    patterns: list[bytes], removed: list[int], subject: bytes
) -> None:
    index: SubscriptionIndex[object] = SubscriptionIndex()
    members = [(pattern, object()) for pattern in patterns]
    for pattern, member in members:
        index.insert(pattern, None, member)
    for place in removed:
        if place < len(members):
            index.remove(members[place][0], None, members[place][1])
    route = index.match_below(b"$JS.ACK")
    if route is not None:
        assert route.plain == index.match(subject).plain


def test_acknowledgements_have_one_route_if_nobody_else_listens() -> None:
    index: SubscriptionIndex[object] = SubscriptionIndex()
    inlet, other = object(), object()
    index.insert(b"$JS.ACK.>", None, inlet)
    index.insert(b"$JS.API.>", None, other)
    index.insert(b"_INBOX.a.*", None, other)
    route = index.match_below(b"$JS.ACK")
    assert route is not None
    assert route.plain == [inlet]
    index.insert(b"$JS.ACK.S.C.1.2.3.4.5", None, other)
    assert index.match_below(b"$JS.ACK") is None
    index.remove(b"$JS.ACK.S.C.1.2.3.4.5", None, other)
    assert index.match_below(b"$JS.ACK") is route


# --- acknowledgements through a server ----------------------------------------------------------

MESSAGES = 8
ACK_IN_MESSAGE = re.compile(rb"\$JS\.ACK\.(\S+)")


def opened(verbose: bool, listens: bytes) -> tuple[StoredWorld, Peer, Peer, list[bytes]]:
    """A client that got all messages of two consumers, and somebody who may hear its acks."""
    world = StoredWorld().start()
    world.create("S", retention="interest")
    for name, policy in (("C", "explicit"), ("D", "all")):
        config = {"durable_name": name, "ack_policy": policy, "ack_wait": 10**15}
        document = {"stream_name": "S", "config": config}
        world.request(f"$JS.API.CONSUMER.CREATE.S.{name}", document)
    listener = world.modern()
    if listens:
        listener.send(b"SUB %b 1\r\n" % listens)
    client = world.modern(no_responders=True, verbose=verbose)
    client.send(b"SUB inbox.* 1\r\n" + b"PUB s 1\r\nx\r\n" * MESSAGES)
    got = b""
    for consumer in (b"C", b"D"):
        subject = b"$JS.API.CONSUMER.MSG.NEXT.S." + consumer
        got += client.ask(b"PUB %b inbox.m 1\r\n%d\r\n" % (subject, MESSAGES))
    listener.take()
    return world, client, listener, ACK_IN_MESSAGE.findall(got)


said = st.sampled_from([b"+ACK", b"+ACK", b"+ACK", b"", b"+OK", b"-NAK", b"+TERM", b"+WPI"])
spoken = st.lists(
    st.tuples(
        st.sampled_from(
            [*range(MESSAGES)] * 3 + [*range(MESSAGES, 2 * MESSAGES), *[-1, -2, -3] * 3]
        ),
        said,
        st.sampled_from([b""] * 8 + [b" inbox.r", b" $JS.ACK.no"]),
    ),
    min_size=1,
    max_size=10,
)


def frames_of(acks: list[tuple[int, bytes, bytes]], tails: list[bytes], block: bytes) -> bytes:
    odd = {-1: b"S.absent.1.1.1.1.1", -2: b"S.C..1.1.1.1", -3: b"S.C"}
    frames = []
    for number, payload, reply in acks:
        subject = b"$JS.ACK." + (odd[number] if number < 0 else tails[number])
        size = b"%d" % len(block + payload)
        words = [b"HPUB" if block else b"PUB", subject + reply]
        words += [b"%d" % len(block), size] if block else [size]
        frames.append(b" ".join(words) + b"\r\n" + block + payload + b"\r\n")
    return b"".join(frames)


def outcome(world: StoredWorld, client: Peer, listener: Peer, frames: bytes) -> object:
    answers = client.ask(frames)
    heard = listener.take()
    infos = []
    for name in ("C", "D"):
        info = world.request(f"$JS.API.CONSUMER.INFO.S.{name}")
        kept = ("num_ack_pending", "num_redelivered", "num_pending", "num_waiting")
        floor = (info["ack_floor"]["consumer_seq"], info["ack_floor"]["stream_seq"])
        infos.append(([info[key] for key in kept], floor))
    state = world.request("$JS.API.STREAM.INFO.S")["state"]
    return (
        re.findall(rb"MSG inbox\.r .*", answers),
        b"-ERR" in answers,
        ACK_IN_MESSAGE.findall(heard),
        infos,
        (state["messages"], state["first_seq"]),
    )


@settings(max_examples=100, deadline=None)
@given(spoken, st.sampled_from([b"", b"", b"$JS.ACK.>", b">", b"$JS.ACK.S.C.1.2.>"]))
@example([(-2, b"+ACK", b"")], b"")
@example([(number, b"+ACK", b"") for number in range(MESSAGES)], b"")
@example([(number, b"", b"") for number in (3, 0, 0, 1)], b">")
def test_acknowledgements_together_or_one_by_one(
    acks: list[tuple[int, bytes, bytes]], listens: bytes
) -> None:
    # A verbose client is looked at closely, and a header block has each ack looked at by itself.
    world, client, listener, tails = opened(False, listens)
    short = outcome(world, client, listener, frames_of(acks, tails, b""))
    world, client, listener, tails = opened(True, listens)
    long = outcome(world, client, listener, frames_of(acks, tails, b"NATS/1.0\r\n\r\n"))
    assert short == long
