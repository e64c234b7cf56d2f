"""The options of the format: parsed once, checked completely, passed on as frozen values.

Spark passes texts under names in any case. Every error in them is found here, before a connection
is opened and long before a Spark job runs, and is reported in one line that names the option, shows
its value and lists the allowed ones. An unknown option is an error too: a misspelt `failOnDataLos`
must not count as the default.

The values are plain and picklable: they travel to the executors inside readers and writers. Secrets
are never part of a message. Knows neither Spark nor the network.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from headwater.base.errors import OperatingError
from headwater.client.link.login import Login, LoginError
from headwater.client.link.reads.levels import ReadLevel
from headwater.go.times import parse_time
from headwater.spark.read.offsets import Changes
from headwater.subjects.grammar import has_wildcard, is_valid_literal, is_valid_pattern

DEFAULT_MARKER_BUCKET: Final = "headwater_sinks"
# More tasks than this for one batch cost more in planning than they save in reading.
PARTITIONS_MAX: Final = 10_000
IN_FLIGHT_DEFAULT: Final = 8_192
IN_FLIGHT_MAX: Final = 65_536
SEQUENCE_MAX: Final = 2**63 - 1
RETRIES_MAX: Final = 1_000
TIMEOUT_S_MAX: Final = 3_600.0
# The limit of a wait for the server: a longer one would go unnoticed.
OUTAGE_TIMEOUT_S_MAX: Final = 7 * 86_400.0

_DATE_ONLY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_SECONDS_PER: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, None: 1.0}
_BUCKET_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
# Characters that a server refuses in the name of a stream.
_STREAM_NAME_REFUSED: Final = re.compile(r"[\s.*>/\\]")
_SHOWN_CHARS_MAX: Final = 80

STREAMS_OPTION: Final = "streams"
STREAMS_MAX: Final = 1_000
"""Every batch asks about each stream, and a stream with messages has a task of its own."""

_OF_ONE_STREAM: Final = {
    "startingSequence": "each counts its own sequences; use startingTime, or starting",
    "endingSequence": "each counts its own sequences; use endingTime, or ending",
    "sessionSequence": "each counts its own sequences; leave it out",
    "pushdown": "leave it out",
}


class OptionError(OperatingError):
    """The option cannot be applied; the message is one line and names it."""


class Kind(Enum):
    """The kind of a table. The value is the option that names it."""

    STREAM = "stream"
    BUCKET = "bucket"
    OBJECTS = "objects"


class At(Enum):
    """The unit of a position."""

    EARLIEST = "earliest"
    LATEST = "latest"
    SEQUENCE = "sequence"
    TIME = "time"


@dataclass(frozen=True)
class Position:
    """A position in a stream: a sequence, a time in nanoseconds since the epoch, or an end.

    A read starts with the message at the position. As an end, the message of a sequence is read
    too, that of a time is not: times are half-open intervals, so that neighbouring ones do not
    overlap.
    """

    at: At
    value: int = 0


EARLIEST: Final = Position(At.EARLIEST)
LATEST: Final = Position(At.LATEST)


@dataclass(frozen=True)
class SourceOptions:
    """The options of a read.

    `name` is the name of the stream, bucket or object store, by `kind`; `stream` is the stream
    behind it. `subjects` are patterns of its subjects, or of the keys of a bucket; empty means all.
    `streams` are names of several streams to read as one, or patterns of names; `of_stream` derives
    the options of one of them. A streaming read stops at its `ending`. Without `partitions_min` the
    planner chooses. Without `changes` the stream decides: the newest entry of each key if the
    stream itself replaces entries, otherwise every message. A session read waits until it sees the
    message at `session_sequence`, the last one that its session has written.
    """

    kind: Kind
    name: str
    login: Login = field(default_factory=Login)
    subjects: tuple[str, ...] = ()
    starting: Position = EARLIEST
    ending: Position = LATEST
    messages_per_trigger_max: int | None = None
    bytes_per_trigger_max: int | None = None
    partitions_min: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = True
    consistency: ReadLevel = ReadLevel.LEADER
    session_sequence: int = 0
    pushdown: bool = False
    history: bool = True
    changes: Changes | None = None
    streams: tuple[str, ...] = ()

    @property
    def stream(self) -> str:
        return stream_name(self.kind, self.name)

    @property
    def target_option(self) -> str:
        """The option that names the table."""
        return STREAMS_OPTION if self.streams else self.kind.value

    def of_stream(self, name: str) -> "SourceOptions":
        """The options for one of several streams."""
        return replace(self, name=name)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Parse and check the options of a read. Raises OptionError."""
        reading = _Reading(options)
        reading.refuse_unknown(_SOURCE_NAMES, other=_SINK_NAMES, other_use="writing")
        kind, name = reading.target(
            {
                "stream": Kind.STREAM,
                STREAMS_OPTION: Kind.STREAM,
                "bucket": Kind.BUCKET,
                "objects": Kind.OBJECTS,
            }
        )
        parsed = cls(
            kind=kind,
            name=name,
            login=reading.login(),
            subjects=reading.patterns("subjects"),
            starting=reading.position("starting", EARLIEST),
            ending=reading.position("ending", LATEST),
            messages_per_trigger_max=reading.number("maxMessagesPerTrigger", 1, SEQUENCE_MAX),
            bytes_per_trigger_max=reading.number("maxBytesPerTrigger", 1, SEQUENCE_MAX),
            partitions_min=reading.number("minPartitions", 1, PARTITIONS_MAX),
            fail_on_data_loss=reading.flag("failOnDataLoss", True),
            include_headers=reading.flag("includeHeaders", True),
            consistency=ReadLevel(
                reading.choice("readConsistency", [level.value for level in ReadLevel], "leader")
            ),
            session_sequence=reading.number("sessionSequence", 1, SEQUENCE_MAX) or 0,
            pushdown=reading.flag("pushdown", False),
            history=reading.flag("history", True),
            changes=reading.changes(),
            streams=reading.streams(),
        )
        parsed._check(reading)
        return parsed

    def _check(self, reading: "_Reading") -> None:
        if self.streams:
            for option, instead in _OF_ONE_STREAM.items():
                if reading.has(option):
                    raise OptionError(
                        f"option {option} is for one stream, not for streams: {instead}"
                    )
        if self.kind is not Kind.BUCKET and reading.has("history"):
            raise OptionError("option history is for buckets: set bucket, or leave it out")
        if self.kind is Kind.OBJECTS and self.changes is not None:
            raise OptionError("option changes is not for object stores: leave it out")
        if self.kind is Kind.OBJECTS and self.subjects:
            raise OptionError(
                "option subjects is not for object stores: their subjects are not those of objects"
            )
        if self.session_sequence and self.consistency is not ReadLevel.SESSION:
            raise OptionError(
                "option sessionSequence is for a session: set readConsistency=session, or leave it"
                " out"
            )
        start, end = self.starting, self.ending
        if start.at is end.at and start.value > end.value and start.at in (At.SEQUENCE, At.TIME):
            name = f"ending{start.at.value.capitalize()}"
            raise OptionError(
                f"option {name}={reading.shown(name)} lies before starting"
                f"{start.at.value.capitalize()}={reading.shown('starting' + start.at.value)}"
            )

    def check_batch(self) -> "SourceOptions":
        """These options, if a batch read can apply them. Raises OptionError."""
        if self.starting.at is At.LATEST:
            raise OptionError(
                "option starting=latest is for streaming reads: a batch would be empty;"
                " use earliest, startingSequence or startingTime"
            )
        if self.changes is not None:
            raise OptionError(
                f"option changes={self.changes.value} is for streaming reads: leave it out; of a"
                " bucket, history=false gives the newest entry of each key"
            )
        return self

    def check_streaming(self) -> "SourceOptions":
        """These options, if a streaming read can apply them. Raises OptionError."""
        if not self.history:
            raise OptionError(
                "option history=false is for batch reads: leave it out, or use spark.read; of a"
                " streaming read, changes=latest gives the newest entry of each key"
            )
        return self


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write.

    `subject` is that of every row without one of its own. At most `max_in_flight` messages wait for
    their acks. `atomic` says whether batches are stored all or not at all: if the stream allows it
    (auto), never, or always, which fails if the stream does not. `on_changed_batch` is the reaction
    to a batch that has the number of a committed one and other rows: fail, or skip. `checkpoint` is
    the query's, which Spark adds to the options. `txn_version` numbers the batch writes of a
    `txn_app_id`. Rows that cannot be messages go to `dead_letter_stream` if there is one, and fail
    the write otherwise.
    """

    kind: Kind
    name: str
    login: Login = field(default_factory=Login)
    subject: str | None = None
    marker_bucket: str = DEFAULT_MARKER_BUCKET
    max_in_flight: int = IN_FLIGHT_DEFAULT
    atomic: str = "auto"
    on_changed_batch: str = "fail"
    checkpoint: str | None = None
    txn_app_id: str | None = None
    txn_version: int | None = None
    dead_letter_stream: str | None = None

    @property
    def stream(self) -> str:
        return stream_name(self.kind, self.name)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Parse and check the options of a write. Raises OptionError."""
        reading = _Reading(options)
        if reading.has("objects"):
            raise OptionError("option objects is for reading: writing goes to a stream or a bucket")
        reading.refuse_unknown(_SINK_NAMES, other=_SOURCE_NAMES, other_use="reading")
        kind, name = reading.target({"stream": Kind.STREAM, "bucket": Kind.BUCKET})
        subject = reading.text("subject")
        if subject is not None and kind is Kind.BUCKET:
            raise OptionError("option subject is for streams: the rows of a bucket have keys")
        if subject is not None and not _is_publishable(subject):
            raise reading.refused("subject", "a subject without wildcards, blanks or empty tokens")
        marker_bucket = reading.text("markerBucket") or DEFAULT_MARKER_BUCKET
        if not _BUCKET_NAME.fullmatch(marker_bucket):
            raise reading.refused("markerBucket", "letters, digits, _ and -")
        return cls(
            kind=kind,
            name=name,
            login=reading.login(),
            subject=subject,
            marker_bucket=marker_bucket,
            max_in_flight=reading.number("maxInFlight", 1, IN_FLIGHT_MAX) or IN_FLIGHT_DEFAULT,
            atomic=reading.choice("atomic", ["auto", "never", "always"], "auto"),
            on_changed_batch=reading.choice("onChangedBatch", ["fail", "skip"], "fail"),
            checkpoint=reading.text("checkpointLocation"),
            dead_letter_stream=reading.dead_letter_stream(),
            **reading.transaction(),
        )

    def check_streaming(self) -> "SinkOptions":
        """These options, if a streaming write can apply them. Raises OptionError."""
        if self.txn_app_id is not None:
            raise OptionError(
                "options txnAppId and txnVersion are for batch writes: a streaming query numbers"
                " its batches itself; leave them out"
            )
        return self


def stream_name(kind: Kind, name: str) -> str:
    """The stream that holds a stream, a bucket or an object store of this name."""
    prefix = {Kind.STREAM: "", Kind.BUCKET: "KV_", Kind.OBJECTS: "OBJ_"}[kind]
    return prefix + name


def reading_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options without those that are for writing only: a table has both."""
    return _without(options, frozenset(_SINK_NAMES) - frozenset(_SOURCE_NAMES))


def writing_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options without those that are for reading only."""
    return _without(options, frozenset(_SOURCE_NAMES) - frozenset(_SINK_NAMES) - {"objects"})


def _without(options: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    dropped = {name.lower() for name in names}
    return {name: text for name, text in options.items() if name.lower() not in dropped}


def is_table_property(name: str) -> bool:
    """Whether Spark adds this name for a table; it repeats each option as `option.x`."""
    return name.lower() in _TABLE_PROPERTIES or name.lower().startswith("option.")


def parse_point_in_time(text: str) -> int:
    """Parse a time into nanoseconds since the epoch. Raises ValueError.

    A time needs its zone, because the machines of a cluster need not share one; a date alone is the
    start of its day in UTC.
    """
    text = text.strip()
    if _DATE_ONLY.fullmatch(text):
        text += "T00:00:00Z"
    return parse_time(text.replace(" ", "T", 1))


_LOGIN_NAMES: Final = (
    "url", "user", "password", "token", "nkey", "creds", "tls", "tlsCa", "tlsCert", "tlsKey",
    "connectTimeout", "requestTimeout", "outageTimeout", "retries", "domain", "apiPrefix",
)  # fmt: skip
_SOURCE_NAMES: Final = (
    "stream", "streams", "bucket", "objects", "subjects",
    "starting", "startingSequence", "startingTime", "ending", "endingSequence", "endingTime",
    "maxMessagesPerTrigger", "maxBytesPerTrigger",
    "minPartitions", "failOnDataLoss", "includeHeaders", "readConsistency", "sessionSequence",
    "pushdown", "history", "changes", *_LOGIN_NAMES,
)  # fmt: skip
_SINK_NAMES: Final = (
    "stream",
    "bucket",
    "subject",
    "markerBucket",
    "maxInFlight",
    "atomic",
    "onChangedBatch",
    "txnAppId",
    "txnVersion",
    "onBadRow",
    "deadLetterStream",
    *_LOGIN_NAMES,
)
# Spark adds these to the user's options.
_SPARKS_OWN: Final = frozenset({"path", "paths", "checkpointlocation", "queryname", "outputmode"})
# Spark adds these for a table in its catalog.
_TABLE_PROPERTIES: Final = frozenset(
    {"provider", "owner", "comment", "external", "location", "is_managed_location", "collation"}
)
_SECRET: Final = frozenset({"password", "token", "nkey"})


class _Reading:
    """The options of one table while they are parsed; each method raises OptionError."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._texts = {name.lower(): text for name, text in options.items()}
        self._written = {name.lower(): name for name in options}

    def refuse_unknown(
        self, names: tuple[str, ...], other: tuple[str, ...], other_use: str
    ) -> None:
        known = {name.lower(): name for name in names}
        others = {name.lower(): name for name in other}
        for name in self._texts:
            if name in known or name in _SPARKS_OWN or name.startswith("spark."):
                continue
            if is_table_property(name):
                continue
            if name in others:
                raise OptionError(f"option {others[name]} is for {other_use}: leave it out")
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(names)}"
            raise OptionError(f"option {self._written[name]} is unknown: {hint}")

    def has(self, name: str) -> bool:
        return name.lower() in self._texts

    def shown(self, name: str) -> str:
        text = self._texts.get(name.lower(), "")
        if name.lower() in _SECRET:
            return "***"
        return repr(text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "...")

    def refused(self, name: str, allowed: str) -> OptionError:
        return OptionError(f"option {name}={self.shown(name)} is not valid: allowed is {allowed}")

    def text(self, name: str) -> str | None:
        text = self._texts.get(name.lower())
        if text is not None and not text.strip():
            raise OptionError(f"option {name} is empty: give it a value or leave it out")
        return text.strip() if text is not None else None

    def number(self, name: str, least: int, most: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        number = int(text) if text.isascii() and text.isdigit() else -1
        if not least <= number <= most:
            raise self.refused(name, f"a whole number from {least} to {most}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise self.refused(name, "true or false")
        return text.lower() == "true"

    def choice(self, name: str, allowed: list[str], default: str) -> str:
        text = self.text(name)
        if text is None:
            return default
        chosen = {each.lower(): each for each in allowed}.get(text.lower())
        if chosen is None:
            raise self.refused(name, " or ".join(allowed))
        return chosen

    def changes(self) -> Changes | None:
        if not self.has("changes"):
            return None
        return Changes(self.choice("changes", [each.value for each in Changes], ""))

    def seconds(
        self, name: str, default: float, most: float = TIMEOUT_S_MAX, may_be_zero: bool = False
    ) -> float:
        text = self.text(name)
        if text is None:
            return default
        match = _DURATION.fullmatch(text)
        seconds = float(match[1]) * _SECONDS_PER[match[2]] if match else -1.0
        if not 0.0 <= seconds <= most or (seconds == 0.0 and not may_be_zero):
            raise self.refused(name, f"seconds up to {most:g}, or a text like 500ms or 2m")
        return seconds

    def dead_letter_stream(self) -> str | None:
        """The stream for rows that cannot be messages; None if they fail the write."""
        is_wanted = self.choice("onBadRow", ["fail", "deadLetter"], "fail") == "deadLetter"
        stream = self.text("deadLetterStream")
        if is_wanted != (stream is not None):
            raise OptionError(
                "options onBadRow=deadLetter and deadLetterStream belong together: set both"
            )
        if stream is not None and _STREAM_NAME_REFUSED.search(stream):
            raise self.refused(
                "deadLetterStream", "a name without blanks, dots, wildcards and slashes"
            )
        return stream

    def transaction(self) -> dict[str, Any]:
        """The application that numbers batch writes, and the number: both or neither."""
        app_id, version = self.text("txnAppId"), self.number("txnVersion", 0, SEQUENCE_MAX)
        if (app_id is None) != (version is None):
            raise OptionError("options txnAppId and txnVersion belong together: set both")
        return {"txn_app_id": app_id, "txn_version": version}

    def patterns(self, name: str) -> tuple[str, ...]:
        text = self.text(name)
        if text is None:
            return ()
        patterns = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        for pattern in patterns:
            if not is_valid_pattern(pattern.encode()) or re.search(r"\s", pattern):
                raise self.refused(name, "subjects joined by commas; * and > may stand for tokens")
        return patterns

    def position(self, side: str, default: Position) -> Position:
        """The start or the end: one of three options, which exclude each other."""
        given = [name for name in (side, side + "Sequence", side + "Time") if self.has(name)]
        if len(given) > 1:
            raise OptionError(f"options {' and '.join(given)} exclude each other: set one")
        if not given:
            return default
        if given[0] == side:
            allowed = ["earliest", "latest"] if side == "starting" else ["latest"]
            return Position(At(self.choice(side, allowed, default.at.value)))
        if given[0].endswith("Sequence"):
            number = self.number(given[0], 1, SEQUENCE_MAX)
            return Position(At.SEQUENCE, number or 0)
        try:
            return Position(At.TIME, parse_point_in_time(self.text(given[0]) or ""))
        except ValueError:
            raise self.refused(
                given[0], "a time with its zone, as 2026-11-15T05:00:00Z, or a date"
            ) from None

    def target(self, options: Mapping[str, Kind]) -> tuple[Kind, str]:
        """The table to read or to write, by the one option of these that is set."""
        names = [*options]
        given = [name for name in names if self.has(name)]
        if len(given) != 1:
            which = ", ".join(names[:-1]) + " or " + names[-1]
            found = " and ".join(given) + " were set" if given else "none was"
            raise OptionError(f"set exactly one of the options {which}: {found}")
        kind = options[given[0]]
        name = self.text(given[0]) or ""
        if given[0] == STREAMS_OPTION:
            return kind, name
        if kind is Kind.STREAM and _STREAM_NAME_REFUSED.search(name):
            raise self.refused("stream", "a name without blanks, dots, wildcards and slashes")
        if kind is not Kind.STREAM and not _BUCKET_NAME.fullmatch(name):
            raise self.refused(kind.value, "letters, digits, _ and -")
        return kind, name

    def streams(self) -> tuple[str, ...]:
        """Names of streams and patterns of them, each once."""
        text = self.text(STREAMS_OPTION)
        names = dict.fromkeys(part.strip() for part in (text or "").split(","))
        if text is None:
            return ()
        # A pattern may have a star, which a name cannot have.
        if any(not name or _STREAM_NAME_REFUSED.search(name.replace("*", "")) for name in names):
            raise self.refused(
                STREAMS_OPTION, "names joined by commas, in which * stands for any characters"
            )
        if len(names) > STREAMS_MAX:
            raise OptionError(
                f"option {STREAMS_OPTION} has {len(names)} names: allowed are {STREAMS_MAX}"
            )
        return tuple(names)

    def login(self) -> Login:
        default = Login()
        login = Login(
            url=self.text("url") or default.url,
            user=self.text("user"),
            # A blank may be part of a secret.
            password=self._texts.get("password"),
            token=self.text("token"),
            nkey=self.text("nkey"),
            creds=self.text("creds"),
            tls=self.flag("tls", False),
            tls_ca=self.text("tlsCa"),
            tls_cert=self.text("tlsCert"),
            tls_key=self.text("tlsKey"),
            connect_timeout_s=self.seconds("connectTimeout", default.connect_timeout_s),
            request_timeout_s=self.seconds("requestTimeout", default.request_timeout_s),
            outage_timeout_s=self.seconds(
                "outageTimeout", default.outage_timeout_s, OUTAGE_TIMEOUT_S_MAX, may_be_zero=True
            ),
            retries=self.number("retries", 0, RETRIES_MAX),
            domain=self.text("domain"),
            api_prefix=self.text("apiPrefix"),
        )
        try:
            login.check()
        except LoginError as error:
            raise OptionError(str(error)) from None
        return login


def _is_publishable(subject: str) -> bool:
    encoded = subject.encode()
    return is_valid_literal(encoded) and not has_wildcard(encoded) and not re.search(r"\s", subject)
