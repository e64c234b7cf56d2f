"""What is wrong with a backup."""

from headwater.base.errors import PeerError


class BackupError(PeerError):
    """The bytes are no backup, or none that can be restored; the text says so after "restore
    failed: ".
    """
