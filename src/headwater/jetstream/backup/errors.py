"""What is wrong with a backup."""

from headwater.base.errors import PeerError


class BackupError(PeerError):
    """The bytes are no backup, or none that can be restored; the text says so after "restore
    failed: ".
    """


def consumers_refused(count: int) -> BackupError:
    """Consumers are not restored, and not dropped in silence either."""
    what = "a consumer" if count == 1 else f"{count} consumers"
    return BackupError(
        f"the backup has {what}, and this version of Headwater restores streams without consumers "
        "only: take the backup without them"
    )
