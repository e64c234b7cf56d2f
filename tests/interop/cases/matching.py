"""Which subscriptions a subject reaches."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue()

PATTERNS = (
    "foo", "foo.bar", "foo.*", "*.bar", "*.*", "*", ">", "foo.>", "foo.*.>", "*.>",
    "foo.*.baz", "foo.bar.baz", "*.*.*", "foo.bar.>", "*.bar.*", "fo", "foo.b", "$x.>",
)  # fmt: skip
SUBJECTS = ("foo", "foo.bar", "foo.bar.baz", "foo.x.baz", "foo.bar.baz.qux", "bar", "$x.y", "f")


@catalogue.case("core.match.table")
def table(session: Session) -> Observation:
    """`*` stands for one token, `>` for one or more at the end, all else for itself.

    A token is matched whole; `$` has no meaning to matching.
    """
    client = session.connect()
    for pattern in PATTERNS:
        client.exchange(f"SUB {pattern} {pattern}\r\n")
    reached = {}
    for subject in SUBJECTS:
        frames = client.exchange(f"PUB {subject} 0\r\n\r\n")
        reached[subject] = sorted(str(frame).split(" ")[2] for frame in frames)
    return reached


@catalogue.case("core.match.overlap")
def overlap(session: Session) -> Observation:
    """A client whose patterns overlap gets one copy for each subscription that matches."""
    client = session.connect()
    client.exchange("SUB a.* 1\r\nSUB a.> 2\r\nSUB > 3\r\nSUB a.b 4\r\n")
    return sorted(str(frame) for frame in client.exchange("PUB a.b 1\r\nx\r\n"))


@catalogue.case("core.match.published-wildcards-are-literal")
def published_wildcards(session: Session) -> Observation:
    """A published `*` or `>` reaches only subscriptions that cover it as a literal token."""
    client = session.connect()
    client.exchange("SUB foo.bar 1\r\nSUB foo.* 2\r\nSUB foo.> 3\r\nSUB * 4\r\n")
    one = client.exchange("PUB foo.* 1\r\na\r\n")
    rest = client.exchange("PUB foo.> 1\r\nb\r\n")
    return {"*": sorted(map(str, one)), ">": sorted(map(str, rest))}


@catalogue.case("core.match.after-unsub-of-overlap")
def unsub_of_overlap(session: Session) -> Observation:
    """Ending one of several equal subscriptions leaves the others, of this client and of others."""
    one, other = session.connect(), session.connect()
    one.exchange("SUB a.* 1\r\nSUB a.* 2\r\n")
    other.exchange("SUB a.* 1\r\n")
    own = one.exchange("UNSUB 1\r\nPUB a.b 1\r\nx\r\n")
    return {"one": own, "other": other.exchange()}


@catalogue.case("core.match.interest-changes-between-publishes")
def interest_changes(session: Session) -> Observation:
    """A subject published before is routed again when interest in it changes."""
    publisher, reader = session.connect(), session.connect()
    seen = []
    for change in ("", "SUB a.> 1\r\n", "SUB *.b 2\r\n", "UNSUB 1\r\n", "UNSUB 2\r\n"):
        reader.exchange(change)
        publisher.exchange("PUB a.b 1\r\nx\r\n")
        seen.append(sorted(map(str, reader.exchange())))
    return seen
