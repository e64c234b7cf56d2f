"""The result of opening a log: the findings beside its index."""

from dataclasses import dataclass, field

from headwater.store.disk.findings import Findings
from headwater.store.disk.format import Entry
from headwater.store.index.ranges import RangeSet


@dataclass(frozen=True, slots=True)
class Recovered:
    """Facts about a log, besides its index, that were found when it was opened."""

    findings: Findings = field(default_factory=Findings)
    lost: RangeSet = field(default_factory=RangeSet)
    # The callers' entries of the journal, in order.
    entries: list[Entry] = field(default_factory=list)
    # Sequences of messages that expire, and when.
    expiries: list[tuple[int, int]] = field(default_factory=list)
    # Sequences behind the checkpoint of messages that were not stored, with header and time.
    passed: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    # The segment and the sequence with which the checkpoint ends; 0 without one.
    checkpoint_segment: int = 0
    checkpoint_sequence: int = 0
    # The log's last sequence when the last entry of the journal was written.
    journal_sequence: int = 0
