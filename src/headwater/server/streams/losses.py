"""Losses of streams are told: to the log, with what to do, and to subscribers of an advisory."""

from collections.abc import Callable, Sequence
from typing import Final

from headwater.server.core.accounts import Account
from headwater.server.streams.advisories import Advisories

# The ranges that a log line names; the advisory has all of them.
_NAMED_MAX: Final = 5


def tell_losses(
    advisories: Advisories,
    log_warning: Callable[[str], object],
    account: Account,
    stream_name: str,
    ranges: Sequence[tuple[int, int]],
) -> None:
    """Tell that the messages of some ranges of sequences are lost, if there were any."""
    if not ranges:
        return
    named = ", ".join(f"{first} to {last}" for first, last in ranges[:_NAMED_MAX])
    more = f" and {len(ranges) - _NAMED_MAX} more ranges" if len(ranges) > _NAMED_MAX else ""
    log_warning(
        f"Stream '{account.name} > {stream_name}': messages with the sequences {named}{more} are "
        "lost, if there were any. The stream goes on above them: publish again what its readers "
        "miss, or restore a backup. With sync_interval: always a power loss costs nothing."
    )
    advisories.stream_lost(account, stream_name, ranges)
