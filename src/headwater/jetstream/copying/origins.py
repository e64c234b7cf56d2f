"""The stream that a mirror or one source copies from, as the configuration names it.

An origin is the same stream for as long as the configuration is. It says which requests reach the
origin, which of its messages are copied, and under which subject a copied message is stored.
"""

from collections.abc import Sequence
from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.base.ids import base62, hash62
from headwater.jetstream.config.stream_config import StreamConfig, StreamSource
from headwater.jetstream.provenance import filters_of, index_name_of, place_of
from headwater.subjects.transform import SubjectTransform, TransformError

_API: Final = "$JS.API"
_HASH_SIZE: Final = 8
_INBOX_SIZE: Final = 8


class Home:
    """The stream that copies: its name, its account and the domain of its server."""

    __slots__ = ("account", "domain", "stream")

    def __init__(self, stream: str, account: str, domain: str) -> None:
        self.stream = stream
        self.account = account
        self.domain = domain

    @property
    def hash(self) -> str:
        """The part of a consumer's name by which an origin tells those that copy it apart."""
        words = (self.stream, self.account, *((self.domain,) if self.domain else ()))
        return hash62(" ".join(words), _HASH_SIZE)


@final
class Origin:
    """One stream that messages are copied from, and the rules for them."""

    __slots__ = (
        "_place",
        "_transforms",
        "consumer_name",
        "filters",
        "filters_text",
        "home",
        "index_name",
        "is_mirrored",
        "source",
    )

    def __init__(
        self, source: StreamSource, home: Home, is_mirrored: bool, is_repeated: bool = False
    ) -> None:
        """`is_repeated` says that the stream has several sources of this name."""
        self.source = source
        self.home = home
        self.is_mirrored = is_mirrored
        self.index_name = index_name_of(source)
        self._place = place_of(source).encode(errors="surrogateescape")
        self.filters_text = filters_of(source).encode(errors="surrogateescape")
        name = home.hash
        if is_repeated:
            name = hash62(f"{name} {self.index_name.decode(errors='replace')}", _HASH_SIZE)
        elif not is_mirrored:
            name = hash62(name, _HASH_SIZE)
        self.consumer_name = f"{'JS_MIRROR' if is_mirrored else 'JS_SRC'}_{name}"
        # The filters of the origin's consumer, and the rule for the subjects behind each of them.
        transforms = source.subject_transforms
        self.filters = tuple(each.src or ">" for each in transforms)
        if not transforms and source.filter_subject:
            self.filters = (source.filter_subject,)
        self._transforms = [
            rule
            for each in transforms
            if each.dest and (rule := _rule_of(each.src, each.dest)) is not None
        ]

    def is_equal(self, other: "Origin") -> bool:
        """Whether the same messages are copied in the same way, through a consumer of one name."""
        return (self.is_mirrored, self.source, self.consumer_name) == (
            other.is_mirrored,
            other.source,
            other.consumer_name,
        )

    # --- requests ------------------------------------------------------------------------------

    def api_subject(self, call: str) -> bytes:
        """The subject of a call of the API that reaches the origin."""
        external = self.source.external
        prefix = external.api if external is not None and external.api else _API
        subject = f"{prefix}.{call}".replace("..", ".")
        return subject.encode(errors="surrogateescape")

    def new_inbox(self, entropy: Entropy) -> str:
        """A subject that nobody else listens to, for the messages of the origin."""
        kind = "M" if self.is_mirrored else "S"
        external = self.source.external
        prefix = external.deliver if external is not None and external.deliver else "$JS"
        return f"{prefix}.{kind}.{base62(entropy, _INBOX_SIZE)}".replace("..", ".")

    # --- messages ------------------------------------------------------------------------------

    def subjects_of(self, subjects: list[bytes], entropy: Entropy) -> list[bytes]:
        """The subjects under which messages of the origin are copied."""
        if not self._transforms:
            return subjects
        found: dict[bytes, bytes] = {}
        is_fixed = not any(rule.is_random for rule in self._transforms)
        result = []
        for subject in subjects:
            to = found.get(subject)
            if to is None:
                to = self._subject_of(subject, entropy)
                if is_fixed:
                    found[subject] = to
            result.append(to)
        return result

    def _subject_of(self, subject: bytes, entropy: Entropy) -> bytes:
        for rule in self._transforms:
            to = rule.apply(subject, entropy)
            if to:
                return to
        return subject

    def provenances(
        self, sequences: Sequence[int], subjects: Sequence[bytes], identity: bytes
    ) -> list[bytes]:
        """The values of the header about the origin, for messages of the origin."""
        middle = b" %b " % self.filters_text
        end = b" " + identity if identity else b""
        return [
            b"%b %d%b%b%b" % (self._place, sequence, middle, subject, end)
            for sequence, subject in zip(sequences, subjects, strict=True)
        ]


def _rule_of(source: str, destination: str) -> SubjectTransform | None:
    try:
        return SubjectTransform.parse(
            source.encode(errors="surrogateescape"), destination.encode(errors="surrogateescape")
        )
    except TransformError:
        # Only a configuration from another version can have a rule that cannot be applied.
        return None


def origins_of(config: StreamConfig, home: Home) -> list[Origin]:
    """The origins of a stream: that of a mirror, or those of its sources, in their order."""
    if config.mirror is not None:
        return [Origin(config.mirror, home, is_mirrored=True)]
    sources = [source for source in config.sources if source is not None]
    names = [source.name for source in sources]
    return [
        Origin(source, home, is_mirrored=False, is_repeated=names.count(source.name) > 1)
        for source in sources
    ]
