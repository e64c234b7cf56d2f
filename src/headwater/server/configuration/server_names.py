"""The names of servers and clusters that other servers can be told of.

A name travels with its length in one byte, stands in lines of the log, and is known to every server
of the cluster: a name that breaks a rule is refused where it is configured, and by the servers that
are told of it.
"""

from typing import Final

from headwater.raft.membership import NAME_BYTES_MAX
from headwater.subjects.grammar import has_blank_or_control

NAME_IS_TOO_LONG: Final = f"is longer than {NAME_BYTES_MAX} bytes"
NAME_HAS_BLANKS: Final = "has a blank or a control character"


def name_fault(name: str) -> str:
    """The rule that a name breaks, or an empty text. An empty name breaks none."""
    if len(name.encode()) > NAME_BYTES_MAX:
        return NAME_IS_TOO_LONG
    return NAME_HAS_BLANKS if has_blank_or_control(name) else ""
