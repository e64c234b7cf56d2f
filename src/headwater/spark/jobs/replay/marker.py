"""How far a replay has come, as an entry of a bucket beside the stream it writes to.

    <name>    {"what": "5e1f...", "to_created": "2026-...", "source_created": "2026-...",
               "next": 20001, "until": 100000, "floor": 20007, "published": 20000,
               "run": "9c04..."}

All messages up to, not including, `next` are in the target; whatever of the later ones is there
already, from a run that was killed, has a sequence above `floor` and an id `<name>:<sequence>`. So
a run that goes on needs to look only there. `until` is fixed by the first run: a replay ends, also
one of a stream into itself.

An archive may hold several incarnations of its stream, whose sequences are the same numbers. They
are replayed one after the other, in the order they were made, and the ids of those after the first
have the number of the incarnation in them: `<name>@1:<sequence>`. Which ones, and how far each
goes, is fixed by the first run too.

Every run puts the entry anew before it publishes, over the revision it has read. A run whose entry
has been replaced is overtaken and stops: before it moves on, and at least every `lease_s` while it
publishes. A message that it sent just before that has the same id as its twin, and both reach the
server within the duplicate window.
"""

import secrets
from dataclasses import asdict, dataclass, replace
from typing import Final

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.client.api.answers import WRONG_LAST_SEQUENCE, StreamInfo
from headwater.client.link.api import ApiClient
from headwater.client.link.errors import ApiRefusedError
from headwater.spark.options import OptionError
from headwater.spark.write.markers import OvertakenError, now_s

DUPLICATE_WINDOW_S: Final = 120.0
"""What a server takes when a stream does not say."""

LEASE_S_MAX: Final = 30.0
"""A claim is renewed at least this often, so that a run that was overtaken stops soon."""


@dataclass(frozen=True)
class Marker:
    """What the entry says. `what` stands for everything two runs of a replay must agree on."""

    what: str
    to_created: str
    source_created: str
    next: int
    until: int
    floor: int
    published: int = 0
    # Of an archive: the incarnations of its stream after this one, each with the time in
    # microseconds at which it was made, and its first and last sequence; and how many came before.
    created_us: int | None = None
    later: tuple[tuple[int | None, int, int], ...] = ()
    part: int = 0
    # Differs from run to run, so that a run knows its own entry when an answer was lost.
    run: str = ""

    @property
    def is_done(self) -> bool:
        return self.next > self.until and not self.later

    def after_part(self) -> "Marker":
        """At the beginning of the next incarnation."""
        (created_us, first, last), *later = self.later
        return replace(
            self,
            created_us=created_us,
            next=first,
            until=last,
            later=tuple(later),
            part=self.part + 1,
        )

    def moved(self, next_sequence: int, floor: int, published: int) -> "Marker":
        """After some more messages; the floor never sinks."""
        return replace(
            self,
            next=next_sequence,
            floor=max(floor, self.floor),
            published=self.published + published,
        )


@dataclass(frozen=True)
class Claim:
    """The right to publish, as a task can carry it."""

    bucket: str
    name: str
    revision: int
    lease_s: float


class MarkerEntry:
    """One replay's entry. `revision` is that of the entry as this run has read or put it."""

    def __init__(self, server: ApiClient, bucket: str, name: str) -> None:
        self._server = server
        self._bucket = bucket
        self._name = name
        self._run = secrets.token_hex(8)
        self.revision = 0

    def read(self) -> Marker | None:
        """What is there. Raises OptionError for an entry of something else."""
        entry = self._server.kv_get(self._bucket, self._name)
        if entry is None:
            return None
        self.revision = entry.sequence
        if not entry.data:
            # Deleted or purged by somebody who wants the replay to begin anew.
            return None
        try:
            return msgspec.json.decode(entry.data, type=Marker)
        except msgspec.DecodeError:
            raise OptionError(
                f"option marker_bucket={self._bucket!r}: its key {self._name} is no replay's;"
                " name another bucket or another replay"
            ) from None

    def put(self, marker: Marker) -> None:
        """Replace the entry. Raises OvertakenError if somebody else has."""
        marker = replace(marker, run=self._run)
        value = msgspec.json.encode(asdict(marker))
        try:
            self.revision = self._server.kv_put(self._bucket, self._name, value, self.revision)
        except ApiRefusedError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
            raise overtaken(self._name) from None

    def claim(self, target: StreamInfo) -> Claim:
        """The right to publish to `target`, as of the entry that was put last."""
        window_ns = int(target.config.get("duplicate_window") or 0)
        window_s = window_ns / NS_PER_S or DUPLICATE_WINDOW_S
        return Claim(self._bucket, self._name, self.revision, min(LEASE_S_MAX, window_s / 2))


class Fence:
    """Stops a task whose run has been overtaken."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._checked_s = -float("inf")

    def check(self, server: ApiClient) -> None:
        """Before sending: make sure, if that was not done just now. Raises OvertakenError."""
        asked_s = now_s()
        if asked_s - self._checked_s < self._claim.lease_s:
            return
        entry = server.kv_get(self._claim.bucket, self._claim.name)
        if entry is None or entry.sequence != self._claim.revision:
            raise overtaken(self._claim.name)
        # The time before the question: the answer was true at some moment after it.
        self._checked_s = asked_s


def overtaken(name: str) -> OvertakenError:
    """What a run is told that another one has replaced."""
    return OvertakenError(
        f"another run of replay {name} is at work: let it end, or stop it and start again"
    )
