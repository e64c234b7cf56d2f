"""Errors of backups."""

from headwater.base.errors import PeerError


class BackupError(PeerError):
    """The backup cannot be restored; clients get the text after "restore failed: "."""
