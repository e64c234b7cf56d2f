"""The rules for publishes that follow from the configuration of a stream and from its account.

A stream makes these rules again with every configuration. They read nothing of the stream but its
configuration; the account says how much room is left, and the consumers say which subjects have
interest.
"""

from collections.abc import Callable
from typing import final

from headwater.go.quoting import quote
from headwater.jetstream.config.stream_config import Retention, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.effects import may_roll_up
from headwater.jetstream.streams.host import Host
from headwater.jetstream.streams.limits import size_rule
from headwater.jetstream.streams.publishing import checks
from headwater.jetstream.streams.republish import Republisher
from headwater.jetstream.streams.schedules.schedule import ScheduleRules
from headwater.subjects.transform import SubjectTransform, TransformError


@final
class PublishRules:
    """The rules of one stream for one configuration."""

    __slots__ = (
        "_is_wanted",
        "_transform",
        "config",
        "host",
        "may_roll_up",
        "plain_bytes_max",
        "refuses_when_full",
        "republisher",
        "schedule_rules",
        "set_aside",
        "stored_size",
        "takes_plain",
    )

    def __init__(
        self, config: StreamConfig, host: Host, is_wanted: Callable[[bytes], bool]
    ) -> None:
        """`is_wanted` returns whether a subject matters to a consumer."""
        self.config = config
        self.host = host
        self._is_wanted = is_wanted
        # Sentences for the server's log about rules of the configuration that cannot be applied.
        self.set_aside: list[str] = []
        self._transform = self._transform_of(config)
        self.republisher = self._republisher_of(config)
        subjects = tuple(subject.encode() for subject in config.subjects)
        self.schedule_rules = ScheduleRules(
            config.allow_msg_schedules, config.allow_msg_ttl, subjects
        )
        # The size of a message against the limits, as nats-server counts it.
        self.stored_size = size_rule(config.storage)
        self.refuses_when_full = checks.refuses_when_full(config)
        # Whether a message may remove others by a roll-up.
        self.may_roll_up = may_roll_up(config)
        # Whether a message without headers, or with a new id, needs no check of its own, and how
        # large its body may be.
        self.takes_plain = checks.takes_unseen(config)
        self.plain_bytes_max = checks.plain_bytes_max(config)

    def _transform_of(self, config: StreamConfig) -> SubjectTransform | None:
        transform = config.subject_transform
        if transform is None:
            return None
        try:
            return SubjectTransform.parse(transform.src.encode(), transform.dest.encode())
        except TransformError as error:
            self._set_aside("subject transform", transform.dest, error)
            return None

    def _republisher_of(self, config: StreamConfig) -> Republisher | None:
        republish = config.republish
        if republish is None:
            return None
        try:
            return Republisher.of(config)
        except TransformError as error:
            self._set_aside("republish", republish.dest, error)
            return None

    def _set_aside(self, rule: str, destination: str, error: TransformError) -> None:
        """Only a configuration from an older version can have a rule that cannot be applied."""
        self.set_aside.append(
            f"its {rule} to {quote(destination)} is not carried out ({error.reply}); "
            "update the stream with another one"
        )

    # --- one message ---------------------------------------------------------------------------

    def transformed(self, subject: bytes) -> bytes:
        """The subject under which a message is stored."""
        if self._transform is None:
            return subject
        return self._transform.apply(subject, self.host.server.entropy) or subject

    def has_interest(self, subject: bytes) -> bool:
        """Whether a message is stored at all: an interest stream needs a matching consumer."""
        if self.config.retention is not Retention.INTEREST:
            return True
        return self._is_wanted(subject)

    def republished(
        self, subject: bytes, header: bytes, body: bytes, sequence: int, last: int, now_ns: int
    ) -> tuple[bytes, bytes, bytes] | None:
        """A message as it is republished; None if it is not."""
        if self.republisher is None:
            return None
        entropy = self.host.server.entropy
        return self.republisher.message(subject, header, body, sequence, last, now_ns, entropy)

    # --- room ----------------------------------------------------------------------------------

    def server_refusal(self) -> ApiError | None:
        """The error by which the server refuses every message; None if it accepts them."""
        try:
            self.host.server.check_storage(self.config.storage)
        except ApiError as error:
            return error
        return None

    def check_account_limits(self, size: int) -> None:
        """Raises ApiError if the account would be beyond its limits with `size` more bytes in each
        replica."""
        config = self.config
        self.host.check_account_room(config.storage, size * (config.num_replicas or 1))
