"""The progress of a replay, as an entry of a bucket beside the stream it writes to.

    <name>    {"what": "5e1f...", "to_created": "2026-...", "source_created": "2026-...",
               "next": 20001, "until": 100000, "floor": 20007, "published": 20000,
               "run": "9c04..."}

All messages before `next` are in the target; later ones that exist already, from a run that was
killed, have a sequence above `floor` and an id `<name>:<sequence>`. So a run that continues needs
to search only there. The first run fixes `until`: a replay ends, even one of a stream into itself.

An archive may hold several incarnations of its stream, whose sequences are equal numbers. They are
replayed one after the other, in the order of their creation, and the ids of those after the first
have the number of the incarnation in them: `<name>@1:<sequence>`. The first run fixes the
incarnations and their ends too.

Every run puts the entry again before it publishes, over the revision it has read. A run whose entry
has been replaced is overtaken and stops: it checks before it moves the marker, and at least every
`lease_s` while it publishes. A message that it sent just before that has the same id as its copy,
and both reach the server within the duplicate window.
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
"""The server's default for a stream without a setting."""

LEASE_S_MAX: Final = 30.0
"""A claim is renewed at least this often, so that a run that was overtaken stops soon."""


@dataclass(frozen=True)
class Marker:
    """The value of the entry. `what` stands for the settings that all runs of a replay share."""

    what: str
    to_created: str
    source_created: str
    next: int
    until: int
    floor: int
    published: int = 0
    # For an archive: the later incarnations of its stream, each with the time of its creation in
    # microseconds, and its first and last sequence; and the number of earlier ones.
    created_us: int | None = None
    later: tuple[tuple[int | None, int, int], ...] = ()
    part: int = 0
    # Differs from run to run, so that a run recognises its own entry when an answer was lost.
    run: str = ""

    @property
    def is_done(self) -> bool:
        return self.next > self.until and not self.later

    def after_part(self) -> "Marker":
        """The marker at the beginning of the next incarnation."""
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
        """The marker after more messages; the floor never sinks."""
        return replace(
            self,
            next=next_sequence,
            floor=max(floor, self.floor),
            published=self.published + published,
        )


@dataclass(frozen=True)
class Claim:
    """The right to publish, in a form that a task can carry."""

    bucket: str
    name: str
    revision: int
    lease_s: float


class MarkerEntry:
    """One replay's entry. `revision` is that of the entry that this run has read or put last."""

    def __init__(self, server: ApiClient, bucket: str, name: str) -> None:
        self._server = server
        self._bucket = bucket
        self._name = name
        self._run = secrets.token_hex(8)
        self.revision = 0

    def read(self) -> Marker | None:
        """The marker in the entry. Raises OptionError for the entry of another program."""
        entry = self._server.kv_get(self._bucket, self._name)
        if entry is None:
            return None
        self.revision = entry.sequence
        if not entry.data:
            # Deleted or purged by a user, to start the replay from the beginning.
            return None
        try:
            return msgspec.json.decode(entry.data, type=Marker)
        except msgspec.DecodeError:
            raise OptionError(
                f"option marker_bucket={self._bucket!r}: its key {self._name} is not a replay's;"
                " name another bucket or another replay"
            ) from None

    def put(self, marker: Marker) -> None:
        """Replace the entry. Raises OvertakenError if another run has."""
        marker = replace(marker, run=self._run)
        value = msgspec.json.encode(asdict(marker))
        try:
            self.revision = self._server.kv_put(self._bucket, self._name, value, self.revision)
        except ApiRefusedError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
            raise overtaken(self._name) from None

    def claim(self, target: StreamInfo) -> Claim:
        """The right to publish to `target`, by the entry that was put last."""
        window_ns = int(target.config.get("duplicate_window") or 0)
        window_s = window_ns / NS_PER_S or DUPLICATE_WINDOW_S
        return Claim(self._bucket, self._name, self.revision, min(LEASE_S_MAX, window_s / 2))


class Fence:
    """Stops a task whose run has been overtaken."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._checked_s = -float("inf")

    def check(self, server: ApiClient) -> None:
        """Check the entry before sending, unless that was done just now. Raises OvertakenError."""
        asked_s = now_s()
        if asked_s - self._checked_s < self._claim.lease_s:
            return
        entry = server.kv_get(self._claim.bucket, self._claim.name)
        if entry is None or entry.sequence != self._claim.revision:
            raise overtaken(self._claim.name)
        # The time before the question: the answer was true at some moment after it.
        self._checked_s = asked_s


def overtaken(name: str) -> OvertakenError:
    """The error for a run that another one has replaced."""
    return OvertakenError(
        f"another run of replay {name} is at work: let it end, or stop it and start again"
    )
