"""Nothing that a client writes into a request becomes a frame, or a header, of another client.

Every text in every request of the API, and every header with a meaning, is sent with blanks, line
ends, whole forged frames and other control characters in it. Then the streams and consumers that
came of it are put to work. A strict parser reads every byte that the requester, a client that hears
everything in the account, and the receivers of consumers get.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Any, Final, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from headwater.go.json import Time
from headwater.jetstream import header_names
from headwater.jetstream.api import consumer_documents, documents, restore, router, snapshot
from headwater.jetstream.config.consumer_config import ConsumerRequest
from headwater.jetstream.config.stream_config import StreamRequest
from headwater.jetstream.consumers import pull
from headwater.jetstream.streams.schedules.schedule import (
    SCHEDULED_ROLLUP,
    SCHEDULED_TTL,
    SOURCE,
    TARGET,
    TIME_ZONE,
)
from headwater.runtime.time_zones import find_zone
from headwater.server.configuration.options import Options
from headwater.testing.disk import SimDisk
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.strict_frames import BrokenFrame, Frame, parse
from tests.kit.world import Peer, connect_document

Path: TypeAlias = tuple[str | int, ...]

FORGED: Final = "forged"
# Texts that begin as a client accepts them, so that the rest is read as a frame of its own.
FORGED_MESSAGE: Final = f"x 1 2\r\nhi\r\nMSG {FORGED}.secret 1 5\r\npwned\r\nMSG y"
FORGED_INFO: Final = 'x 1 0\r\n\r\nINFO {"connect_urls":["203.0.113.1:4222"]}\r\nMSG y'
FORGED_HEADER: Final = f"x\r\nNats-Subject: {FORGED}\r\n\r\n"
LONG: Final = "n" * 5000
CHARACTERS: Final = ("\r", "\n", "\r\n", " ", "\t", "\f", "\0", "\x1b")
# A text may be refused because it is no subject at all, so the poison also stands inside of one.
POISONS: Final = (
    *(f"out.{poison}" for poison in CHARACTERS),
    *(f"out.a{poison}b.>" for poison in CHARACTERS),
    *(FORGED_MESSAGE, f"out.{FORGED_MESSAGE}", f"out.{FORGED_MESSAGE}.>"),
    *(f"out.{FORGED_INFO}.>", f"out.{FORGED_HEADER}", f"out.{FORGED_HEADER}.>", LONG),
    f"out.{{{{wildcard(1)}}}}.{FORGED_MESSAGE}",
)

STREAM: Final = {
    "name": "T",
    "subjects": ["t.*"],
    "allow_msg_ttl": True,
    "allow_rollup_hdrs": True,
    "allow_direct": True,
}
PUSHED: Final = {
    "name": "P",
    "ack_policy": "explicit",
    "deliver_subject": "push.p",
    "idle_heartbeat": 100_000_000,
    "flow_control": True,
}
CREATION: Final = {"stream_name": "S", "config": {"ack_policy": "explicit"}}
PINNED: Final = {
    "name": "C",
    "durable_name": "C",
    "ack_policy": "explicit",
    "priority_policy": "pinned_client",
    "priority_groups": ["g"],
}


class Call(NamedTuple):
    """One request of the API: its subject, the kind of its body, and a body that is taken.

    If `about` names a field, only texts in that field are tried; another call tries the others.
    """

    subject: str
    kind: type
    body: dict[str, Any]
    about: str = ""

    def paths(self) -> list[Path]:
        """The places of the texts that are tried."""
        return [path for path in paths_of(self.kind) if self.about in ("", path[0])]


CALLS: Final = (
    Call("STREAM.CREATE.T", StreamRequest, STREAM),
    Call(
        "STREAM.CREATE.T",
        StreamRequest,
        STREAM | {"republish": {"src": "t.*", "dest": "again.a"}},
        "republish",
    ),
    Call(
        "STREAM.CREATE.T",
        StreamRequest,
        STREAM | {"republish": {"src": ">", "dest": "again.>"}},
        "republish",
    ),
    Call(
        "STREAM.CREATE.T",
        StreamRequest,
        STREAM | {"subject_transform": {"src": "t.*", "dest": "out.a"}},
        "subject_transform",
    ),
    Call("STREAM.UPDATE.S", StreamRequest, {"name": "S", "subjects": ["s.>"]}),
    Call(
        "STREAM.UPDATE.S",
        StreamRequest,
        {"name": "S", "subjects": ["s.>"], "republish": {"src": "s.*", "dest": "again.a"}},
        "republish",
    ),
    Call("STREAM.INFO.S", documents.StreamInfoRequest, {}),
    Call("STREAM.NAMES", documents.StreamNamesRequest, {}),
    Call("STREAM.LIST", documents.StreamListRequest, {}),
    Call("STREAM.PURGE.S", documents.PurgeRequest, {}),
    Call("STREAM.MSG.GET.S", documents.MessageGetRequest, {"seq": 1}),
    Call("DIRECT.GET.S", documents.MessageGetRequest, {}),
    Call("STREAM.MSG.DELETE.S", documents.MessageDeleteRequest, {"seq": 1}),
    Call("STREAM.SNAPSHOT.S", snapshot.SnapshotRequest, {"deliver_subject": "push.s"}),
    Call(
        "STREAM.RESTORE.T",
        restore.RestoreRequest,
        {"config": STREAM, "state": {"messages": 0}},
    ),
    Call("CONSUMER.CREATE.S", ConsumerRequest, CREATION),
    Call("CONSUMER.CREATE.S.P", ConsumerRequest, {"stream_name": "S", "config": PUSHED}),
    Call("CONSUMER.CREATE.S.C", ConsumerRequest, {"stream_name": "S", "config": PINNED}),
    Call("CONSUMER.DURABLE.CREATE.S.C", ConsumerRequest, {"stream_name": "S", "config": PINNED}),
    Call("CONSUMER.NAMES.S", consumer_documents.ConsumersRequest, {}),
    Call("CONSUMER.LIST.S", consumer_documents.ConsumersRequest, {}),
    Call("CONSUMER.PAUSE.S.Q", consumer_documents.PauseRequest, {}),
    Call("CONSUMER.UNPIN.S.Q", consumer_documents.UnpinRequest, {"group": "g"}),
    Call("CONSUMER.RESET.S.Q", consumer_documents.ResetRequest, {}),
    Call("CONSUMER.MSG.NEXT.S.Q", pull.PullDocument, {"batch": 1, "no_wait": True, "group": "g"}),
)
# Calls that take no body, and those that no server without a cluster looks into.
WITHOUT_TEXT: Final = {"INFO", "STREAM.DELETE", "CONSUMER.INFO", "CONSUMER.DELETE"}

SOURCE_STREAM: Final = {"name": "M", "external": {"api": "a", "deliver": "b"}}
# Fields that have to stand around a text for it to be looked at.
SURROUNDINGS: Final[Mapping[str, dict[str, Any]]] = {
    "mirror": {"name": "T", "mirror": SOURCE_STREAM, "subjects": []},
    "sources": {"name": "T", "sources": [SOURCE_STREAM]},
}


# --- texts in requests ----------------------------------------------------------------------------


def paths_of(kind: Any) -> Iterator[Path]:
    """The places of texts in a JSON document of this kind; 0 is the first of a list."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        for each in arguments:
            if each is not type(None):
                yield from paths_of(each)
    elif origin is tuple:
        yield from ((0, *rest) for rest in paths_of(arguments[0]))
    elif origin is dict:
        # A key of its own is a text, and so may be its value.
        yield ("{key}",)
        yield from (("any", *rest) for rest in paths_of(arguments[1]))
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        for name in kind.__struct_fields__:
            yield from ((name, *rest) for rest in paths_of(hints[name]))
        yield ("{key}",)
    elif kind is str or kind is Time or (isinstance(kind, type) and issubclass(kind, Enum)):
        yield ()


def with_text(document: Any, path: Path, text: str) -> Any:
    """`document` with a text at a path."""
    if not path:
        return text
    step, *rest = path
    if step == "{key}":
        return (document if isinstance(document, dict) else {}) | {text: "v"}
    if isinstance(step, int):
        old = document[step] if isinstance(document, list) and document else None
        others = document[1:] if isinstance(document, list) else []
        return [with_text(old, tuple(rest), text), *others]
    old = document.get(step) if isinstance(document, dict) else None
    return (document or {}) | {step: with_text(old, tuple(rest), text)}


def bodies(call: Call, path: Path) -> Iterator[dict[str, Any]]:
    """The request with every poison at a path."""
    surroundings = SURROUNDINGS.get(str(path[0]), {}) if call.kind is StreamRequest else {}
    for poison in POISONS:
        yield with_text(call.body | surroundings, path, poison)


# --- listening clients ----------------------------------------------------------------------------


class Watched(StoredWorld):
    """A server with a stream S and a pinned consumer Q, whose every byte is parsed."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        roomy = streaming(max_file_bytes=1 << 28, max_memory_bytes=1 << 28)
        super().__init__(Options(jetstream=roomy, ping_interval_s=1e6), disk, find_zone=find_zone)
        self.start()
        self.looks_at_headers = True
        self.attacker = self.modern()
        self.victim = self.modern()
        self.receiver = self.modern()
        self.old_client = self.modern(headers=False, no_responders=False)
        for peer in self.everyone:
            peer.send(b"SUB inbox 1\r\n")
        self.victim.send(b"SUB > 2\r\n")
        self.old_client.send(b"SUB > 2\r\n")
        self.receiver.send(b"SUB push.> 2\r\nSUB push.p 3\r\nSUB push.p g 4\r\n")
        for peer in self.everyone:
            peer.take()

    @property
    def everyone(self) -> tuple[Peer, ...]:
        return self.attacker, self.victim, self.receiver, self.old_client

    def with_stream(self) -> "Watched":
        """This server, with the stream and the consumer that requests are about."""
        assert "error" not in self.call(
            "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True}
        )
        self.publish("s.a")
        config = PINNED | {"name": "Q", "durable_name": "Q"}
        body = {"stream_name": "S", "config": config}
        assert "error" not in self.call("CONSUMER.CREATE.S.Q", body)
        return self

    def call(self, subject: str, body: object = None) -> Any:
        """The answer to a request, parsed; an empty one if it is no document."""
        payload = b"" if body is None else json.dumps(body).encode()
        line = f"PUB $JS.API.{subject} inbox {len(payload)}\r\n".encode()
        self.attacker.send(line + payload + b"\r\n")
        self.sync()
        for frame in self.check():
            if frame.subject == b"inbox" and frame.payload.startswith(b"{"):
                return json.loads(frame.payload)
        return {}

    def publish(self, subject: str, block: bytes = b"") -> Any:
        """The ack of a publish, or an empty document."""
        verb, sizes = ("HPUB", f"{len(block)} {len(block) + 1}") if block else ("PUB", "1")
        line = f"{verb} {subject} inbox {sizes}\r\n".encode()
        self.attacker.send(line + block + b"x\r\n")
        self.sync()
        answers = [frame for frame in self.check() if frame.subject == b"inbox" and frame.payload]
        return json.loads(answers[0].payload) if answers else {}

    def sync(self) -> None:
        """Let the disk finish what it was given, and what follows from that."""
        while self.scheduler.offloaded:
            self.finish_checks()

    def check(self) -> list[Frame]:
        """The frames that came to the attacker; frames that came to any client are checked."""
        heard = []
        for peer in self.everyone:
            frames = parse(peer.take(), self.looks_at_headers)
            for frame in frames:
                named = frame.subject + frame.reply
                if frame.kind not in ("MSG", "HMSG", "PING") or FORGED.encode() in named:
                    raise BrokenFrame(f"nobody sent this: {frame}")
            heard.append(frames)
            assert not peer.reason
        return heard[0]

    def work(self) -> None:
        """Let everything happen that streams and consumers do."""
        for subject in ("s.a", "t.a", "out.a"):
            self.publish(subject)
        for stream, name in (("S", "P"), ("S", "C"), ("S", "Q")):
            self.call(f"CONSUMER.MSG.NEXT.{stream}.{name}", {"batch": 1, "no_wait": True})
            self.call(f"CONSUMER.INFO.{stream}.{name}")
        self.call("STREAM.MSG.GET.T", {"seq": 1})
        self.call("DIRECT.GET.T", {"seq": 1})
        self.advance(0.2)
        self.check()

    def tidy(self) -> None:
        """Take away what a request may have made."""
        self.call("STREAM.DELETE.T")
        for name in ("P", "C"):
            self.call(f"CONSUMER.DELETE.S.{name}")


# --- the rules ------------------------------------------------------------------------------------


def test_every_call_with_a_body_is_tried() -> None:
    tried = [f"{call.subject}." for call in CALLS]
    for name, operation in router.OPERATIONS.items():
        if not operation.needs_cluster and name not in WITHOUT_TEXT:
            assert any(subject.startswith(f"{name}.") for subject in tried), name


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.subject)
def test_the_request_without_poison_is_taken(call: Call) -> None:
    world = Watched().with_stream()
    assert "error" not in world.call(call.subject, call.body)
    world.work()


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.subject} {call.about}")
def test_no_text_of_a_request_becomes_a_frame_or_a_header(call: Call) -> None:
    world = Watched().with_stream()
    for path in call.paths():
        for body in bodies(call, path):
            if "error" not in world.call(call.subject, body):
                world.work()
                world.tidy()


MIRROR: Final = {"name": "T", "mirror": {"name": "M"}}
SOURCED: Final = {"name": "T", "sources": [{"name": "M"}]}
# The code that nats-server has for a blank there, or that of the nearest rule where it has none.
REFUSED: Final[tuple[tuple[str, dict[str, Any], Path, int], ...]] = (
    ("STREAM.CREATE.T", STREAM, ("subjects", 0), 10052),
    ("STREAM.CREATE.T", STREAM, ("republish", "dest"), 10052),
    ("STREAM.CREATE.T", STREAM | {"republish": {"dest": "a"}}, ("republish", "src"), 10052),
    ("STREAM.UPDATE.S", {"name": "S"}, ("republish", "dest"), 10052),
    ("STREAM.RESTORE.T", {"config": STREAM}, ("config", "republish", "dest"), 10052),
    ("STREAM.CREATE.T", STREAM, ("subject_transform", "src"), 10155),
    ("STREAM.CREATE.T", STREAM, ("subject_transform", "dest"), 10156),
    ("STREAM.CREATE.T", MIRROR, ("mirror", "name"), 10142),
    ("STREAM.CREATE.T", SURROUNDINGS["mirror"], ("mirror", "name"), 10142),
    ("STREAM.CREATE.T", MIRROR, ("mirror", "filter_subject"), 10049),
    ("STREAM.CREATE.T", MIRROR, ("mirror", "subject_transforms", 0, "src"), 10151),
    ("STREAM.CREATE.T", MIRROR, ("mirror", "subject_transforms", 0, "dest"), 10154),
    ("STREAM.CREATE.T", MIRROR, ("mirror", "external", "api"), 10052),
    ("STREAM.CREATE.T", MIRROR, ("mirror", "external", "deliver"), 10024),
    ("STREAM.CREATE.T", MIRROR, ("mirror", "consumer", "name"), 10213),
    ("STREAM.CREATE.T", SOURCED, ("sources", 0, "name"), 10141),
    ("STREAM.CREATE.T", SOURCED, ("sources", 0, "filter_subject"), 10049),
    ("STREAM.CREATE.T", SOURCED, ("sources", 0, "subject_transforms", 0, "src"), 10145),
    ("STREAM.CREATE.T", SOURCED, ("sources", 0, "subject_transforms", 0, "dest"), 10146),
    ("STREAM.CREATE.T", SOURCED, ("sources", 0, "external", "api"), 10052),
    ("STREAM.CREATE.T", SOURCED, ("sources", 0, "external", "deliver"), 10024),
    ("STREAM.SNAPSHOT.S", {"window_size": 0}, ("deliver_subject",), 10015),
    ("CONSUMER.CREATE.S", CREATION, ("config", "name"), 10052),
    ("CONSUMER.CREATE.S.C", CREATION, ("config", "filter_subject"), 10052),
    ("CONSUMER.CREATE.S.C", CREATION, ("config", "filter_subjects", 0), 10052),
    ("CONSUMER.CREATE.S.C", CREATION, ("config", "deliver_subject"), 10112),
    (
        "CONSUMER.CREATE.S.P",
        {"stream_name": "S", "config": PUSHED},
        ("config", "deliver_group"),
        10052,
    ),
    (
        "CONSUMER.CREATE.S.C",
        {"stream_name": "S", "config": PINNED},
        ("config", "priority_groups", 0),
        10162,
    ),
    ("CONSUMER.UNPIN.S.Q", {}, ("group",), 10162),
)


@pytest.mark.parametrize(("subject", "body", "path", "code"), REFUSED)
def test_blanks_and_control_characters_are_refused_with_a_code(
    subject: str, body: dict[str, Any], path: Path, code: int
) -> None:
    world = Watched().with_stream()
    is_name = path[-1] in ("name", "deliver_group", "group") or "priority_groups" in path
    for character in (*CHARACTERS, "\x01", "\v", "\x7f"):
        for text in (f"a{character}b", *(() if is_name else (f"a.{character}",))):
            answer = world.call(subject, with_text(body, path, text))
            assert answer.get("error", {}).get("err_code") == code, (text, answer)


@pytest.mark.parametrize("character", ["\0", "\x01", "\x0b", "\x1b", "\x7f"])
def test_no_word_of_a_subject_becomes_a_name_with_control_characters(character: str) -> None:
    world = StoredWorld().start()
    assert "error" not in world.create("S")
    name = f"a{character}b"
    refused = world.request(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": ["t"]})
    assert refused["error"]["err_code"] == 10052
    body = {"stream_name": "S", "config": {"name": name}}
    refused = world.request(f"$JS.API.CONSUMER.CREATE.S.{name}", body)
    assert refused["error"]["err_code"] == 10052


HEADERS: Final = (
    *(value for name, value in vars(header_names).items() if name.isupper() and name[0] != "_"),
    *(SCHEDULED_ROLLUP, SCHEDULED_TTL, SOURCE, TARGET, TIME_ZONE),
)
# For each group of headers, one set that gives the others of the group a meaning.
MEANINGFUL: Final[tuple[dict[bytes, bytes], ...]] = (
    {},
    {header_names.SCHEDULE: b"@at 2020-01-01T00:00:00Z", TARGET: b"t.out"},
    {header_names.SCHEDULE_NEXT: header_names.SCHEDULE_NEXT_PURGE, header_names.SCHEDULER: b"t.a"},
    {header_names.BATCH_ID: b"b", header_names.BATCH_SEQUENCE: b"1"},
)


def test_no_header_of_a_publish_becomes_a_frame_or_a_subject() -> None:
    world = Watched()
    # The header of a message is its publisher's own affair, and goes to receivers as it came.
    world.looks_at_headers = False
    scheduling = STREAM | {"subjects": ["t.>"], "allow_msg_schedules": True, "allow_atomic": True}
    assert "error" not in world.call("STREAM.CREATE.T", scheduling)
    republishing = {"name": "S", "subjects": ["s.>"], "republish": {"src": ">", "dest": "again.>"}}
    assert "error" not in world.call("STREAM.CREATE.S", republishing)
    # All that is stored is pushed at once.
    config = {"name": "P", "ack_policy": "none", "deliver_subject": "push.p"}
    body = {"stream_name": "T", "config": config}
    assert "error" not in world.call("CONSUMER.CREATE.T.P", body)
    published = 0
    for name in HEADERS:
        for character in (b"\r", b"\n", b" ", b"\t", b"\0"):
            for text in (b"t.%b.b", b"t.a%bb", b"%b"):
                for others in MEANINGFUL:
                    said = others | {name: text % character}
                    lines = b"".join(b"%b: %b\r\n" % pair for pair in said.items())
                    published += 1
                    # Each on a subject of its own: a schedule would take the place of another.
                    world.publish(f"t.{published}", b"NATS/1.0\r\n%b\r\n" % lines)
            world.advance(2)
            world.check()


@pytest.mark.parametrize("name", ["name", "lang", "version", "user", "pass", "auth_token"])
def test_no_text_of_connect_becomes_a_frame_of_another_client(name: str) -> None:
    world = Watched().with_stream()
    for poison in (*CHARACTERS, FORGED_MESSAGE, FORGED_INFO, FORGED_HEADER):
        world.attacker = world.connect(connect_document(**{name: poison}))
        world.attacker.send(b"SUB inbox 1\r\n")
        world.call("STREAM.INFO.S")
        world.call("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "description": poison})
