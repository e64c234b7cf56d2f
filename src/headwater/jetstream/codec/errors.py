"""The errors of the codec: the only ones that decoding raises, whatever the bytes are."""

from headwater.base.errors import OperatingError


class RecordError(OperatingError):
    """Bytes that are not a record; the text has the reason."""


class NewerRecordError(RecordError):
    """A record that a newer version of the program wrote, which may be sound.

    Its log must not be changed: the newer version can read it.
    """

    def __init__(self, kind: int, version: int) -> None:
        super().__init__(
            f"a record of kind {kind}, version {version} is unknown to this program: "
            "a newer Headwater wrote it; use that version or a later one"
        )
