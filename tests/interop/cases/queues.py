"""Queue groups: of all members of a group that match, one gets the message.

Which one is chance, so scripts compare counts, totals and sets, never who was first.
"""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.wire_client import WireClient

catalogue = Catalogue()


def publish(client: WireClient, subject: str, count: int) -> list[str]:
    """Publish 0, 1, 2… and return the frames that the publisher itself got."""
    data = "".join(f"PUB {subject} {len(str(n))}\r\n{n}\r\n" for n in range(count))
    return [str(frame) for frame in client.exchange(data)]


def payloads(frames: list[str]) -> list[int]:
    return sorted(int(frame.split("\r\n")[1]) for frame in frames)


def received(client: WireClient) -> list[str]:
    return [str(frame) for frame in client.exchange()]


@catalogue.case("core.queue.one-member-gets-each")
def one_member_gets_each(session: Session) -> Observation:
    """Each message reaches exactly one member, and in a hundred each of three gets some."""
    members = [session.connect() for _ in range(3)]
    for member in members:
        member.exchange("SUB work.q workers 1\r\n")
    publish(session.connect(), "work.q", 100)
    shares = [received(member) for member in members]
    return {
        "all": payloads([frame for share in shares for frame in share]),
        "each got some": all(shares),
    }


@catalogue.case("core.queue.frame-has-no-queue")
def frame_has_no_queue(session: Session) -> Observation:
    """The frame a member gets does not name the group."""
    return session.connect().exchange("SUB foo workers 7\r\nPUB foo back 2\r\nhi\r\n")


@catalogue.case("core.queue.members-of-one-connection")
def members_of_one_connection(session: Session) -> Observation:
    """Two subscriptions of one connection in one group are two members: one copy per message."""
    client = session.connect()
    client.exchange("SUB foo g 1\r\nSUB foo g 2\r\n")
    return payloads(publish(client, "foo", 20))


@catalogue.case("core.queue.two-groups")
def two_groups(session: Session) -> Observation:
    """Each group gets its own copy, also when one client is in both."""
    client = session.connect()
    client.exchange("SUB foo one 1\r\nSUB foo two 2\r\n")
    return sorted(publish(client, "foo", 3))


@catalogue.case("core.queue.with-plain-subscription")
def with_plain_subscription(session: Session) -> Observation:
    """A plain subscription and a group on one subject each get every message once."""
    client = session.connect()
    client.exchange("SUB foo 1\r\nSUB foo g 2\r\nSUB foo g 3\r\n")
    frames = publish(client, "foo", 10)
    plain = [frame for frame in frames if frame.startswith("MSG foo 1 ")]
    group = [frame for frame in frames if not frame.startswith("MSG foo 1 ")]
    return {"plain": payloads(plain), "group": payloads(group)}


@catalogue.case("core.queue.group-spans-patterns")
def group_spans_patterns(session: Session) -> Observation:
    """Members that subscribed by different patterns are one group: one copy in all."""
    client = session.connect()
    client.exchange("SUB a.b g 1\r\nSUB a.* g 2\r\nSUB > g 3\r\n")
    return payloads(publish(client, "a.b", 20))


@catalogue.case("core.queue.name-is-literal")
def name_is_literal(session: Session) -> Observation:
    """A group's name is any word: stars in it match nothing but themselves."""
    client = session.connect()
    client.exchange("SUB foo g.* 1\r\nSUB foo g.x 2\r\n")
    return sorted(publish(client, "foo", 1))


@catalogue.case("core.queue.member-leaves")
def member_leaves(session: Session) -> Observation:
    """When a member unsubscribes or disconnects, the others get everything."""
    stays, unsubscribes, dies = (session.connect() for _ in range(3))
    for member in (stays, unsubscribes, dies):
        member.exchange("SUB foo g 1\r\n")
    unsubscribes.exchange("UNSUB 1\r\n")
    dies.until_closed("nope\r\n")
    session.wait_until_gone(dies)
    publish(session.connect(), "foo", 20)
    return {"stays": payloads(received(stays)), "unsubscribed": received(unsubscribes)}


@catalogue.case("core.queue.max")
def queue_max(session: Session) -> Observation:
    """UNSUB with a number counts the messages of this member; after it the others get the rest."""
    client, other = session.connect(), session.connect()
    client.exchange("SUB foo g 1\r\nUNSUB 1 2\r\n")
    first = publish(client, "foo", 3)
    other.exchange("SUB foo g 9\r\n")
    publish(client, "foo", 3)
    return {"first": first, "other": received(other), "late": received(client)}


@catalogue.case("core.queue.echo-off-only-member")
def echo_off_only_member(session: Session) -> Observation:
    """A publisher with echo off that is the only member of the group: nobody gets the message."""
    client = session.connect(echo=False)
    client.exchange("SUB foo g 1\r\n")
    return publish(client, "foo", 5)


@catalogue.case("core.queue.echo-off-other-member")
def echo_off_other_member(session: Session) -> Observation:
    """With another member in the group, echo off sends every message to that one."""
    silent, other = session.connect(echo=False), session.connect()
    silent.exchange("SUB foo g 1\r\n")
    other.exchange("SUB foo g 1\r\n")
    return {"own": publish(silent, "foo", 20), "other": payloads(received(other))}


@catalogue.case("core.queue.invalid-subject")
def invalid_subject(session: Session) -> Observation:
    """A malformed subject is refused for a group as for a plain subscription."""
    return session.connect().exchange("SUB a..b g 1\r\n")


@catalogue.case("core.queue.reserved-name", text='to "foo" using queue "_sys_"')
def reserved_name(session: Session) -> Observation:
    """The group the server uses for itself is forbidden, to everyone."""
    return session.connect().exchange("SUB foo _sys_ 1\r\nSUB foo _SYS_ 2\r\n")


@catalogue.case("core.queue.headers")
def queue_headers(session: Session) -> Observation:
    """A member without header support gets the message without its headers."""
    member = session.connect(headers=False)
    member.exchange("SUB foo g 1\r\n")
    session.connect().exchange("HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
    return member.exchange()
