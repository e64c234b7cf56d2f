"""A server with several groups and a ledger of what it has promised, for crashes at any moment.

The twin of a group is the list of states that it passes through, one per frame. After a crash a
group is in one of them, no earlier than the last one that rests under a promise.
"""

from dataclasses import dataclass, field

from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.groups.group_log import GroupLog, SaveTicket
from headwater.store.store import Store

NO_STATE = GroupState()
NO_SNAPSHOT = SnapshotMark()


@dataclass(frozen=True)
class Standing:
    """The state of one group. A group of mode MEMORY has nothing but its hard state on disk."""

    state: GroupState = NO_STATE
    snapshot: SnapshotMark = NO_SNAPSHOT
    entries: tuple[GroupEntry, ...] = ()
    exists: bool = True

    @property
    def log(self) -> tuple[object, ...]:
        return self.exists, self.snapshot, self.entries


GONE = Standing(exists=False)


@dataclass
class Twin:
    """One group: all that was saved, and the positions up to which a crash must keep it."""

    mode: GroupMode
    standings: list[Standing] = field(default_factory=lambda: [GONE])
    after_kill: int = 0
    after_power_loss: int = 0
    waiting: list[tuple[SaveTicket, int, bool]] = field(default_factory=list)

    @property
    def last(self) -> Standing:
        return self.standings[-1]

    def note(self, ticket: SaveTicket, is_promise: bool) -> None:
        """Replies rest on all standings so far; a vote has to survive a power loss in any mode."""
        must_last = is_promise or self.mode is GroupMode.SYNCED
        self.waiting.append((ticket, len(self.standings) - 1, must_last))

    def step(
        self,
        snapshot: SnapshotMark | None = None,
        state: GroupState | None = None,
        entries: list[GroupEntry] | None = None,
        cut: int = 0,
        compacted: SnapshotMark | None = None,
    ) -> None:
        """Pass through the standings of one portion of work."""
        on_disk = self.mode is not GroupMode.MEMORY
        last = self.last
        if snapshot is not None and on_disk:
            # A snapshot of a later term, without the hard state behind it, begins that term.
            promised = last.state
            if promised.term < snapshot.term:
                promised = promised._replace(term=snapshot.term, vote="")
            last = self._add(Standing(promised, snapshot))
        if state is not None:
            last = self._add(Standing(state, last.snapshot, last.entries))
        for entry in entries or []:
            if on_disk:
                kept = tuple(each for each in last.entries if each.index < entry.index)
                last = self._add(Standing(last.state, last.snapshot, (*kept, entry)))
        if cut and on_disk:
            kept = tuple(each for each in last.entries if each.index < cut)
            last = self._add(Standing(last.state, last.snapshot, kept))
        if compacted is not None and on_disk:
            kept = tuple(each for each in last.entries if each.index > compacted.index)
            self._add(Standing(last.state, compacted, kept))

    def _add(self, standing: Standing) -> Standing:
        self.standings.append(standing)
        return standing

    def end(self) -> None:
        self.standings.append(GONE)


def standing_of(log: GroupLog) -> Standing:
    """The state of a log, read back from its files."""
    if log.mode is GroupMode.MEMORY:
        return Standing(log.state)
    entries: list[GroupEntry] = []
    while log.first_index + len(entries) <= log.last_index:
        entries += log.entries(log.first_index + len(entries), log.last_index, 40)
    for entry in entries:
        assert log.term_at(entry.index) == entry.term
    return Standing(log.state, log.snapshot, tuple(entries))


class GroupHost:
    """The groups of a server. Its ledger survives a crash."""

    def __init__(self) -> None:
        self.twins: dict[bytes, Twin] = {}
        self.counter = 0

    def start(self, store: Store) -> None:
        """Go on with the groups of a store: what it has is what was saved."""
        self.store = store
        for identity, twin in self.twins.items():
            found = GONE
            if identity in store.groups:
                found = standing_of(store.groups[identity])
            twin.standings = [found]
            twin.after_kill = twin.after_power_loss = 0
            twin.waiting = []

    def log(self, identity: bytes) -> GroupLog:
        return self.store.groups[identity]

    # --- work -----------------------------------------------------------------------------------

    def create(self, identity: bytes, mode: GroupMode) -> None:
        twin = self.twins.setdefault(identity, Twin(mode))
        snapshot, state = SnapshotMark(1, 1, b"abc"), GroupState(1)
        _, ticket = self.store.groups.create(identity, mode, snapshot, state)
        # A group is there when both of its first frames are.
        on_disk = snapshot if mode is not GroupMode.MEMORY else NO_SNAPSHOT
        twin.standings.append(Standing(state, on_disk))
        twin.note(ticket, is_promise=True)

    def remove(self, identity: bytes) -> None:
        ticket = self.store.groups.remove(identity)
        self.twins[identity].end()
        self.twins[identity].note(ticket, is_promise=True)

    def save(
        self,
        identity: bytes,
        snapshot: SnapshotMark | None = None,
        state: GroupState | None = None,
        entries: list[GroupEntry] | None = None,
    ) -> None:
        before = self.log(identity).state
        ticket = self.log(identity).save(snapshot=snapshot, state=state, entries=entries or [])
        twin = self.twins[identity]
        twin.step(snapshot, state, entries)
        is_vote = state is not None and (state.term, state.vote) != (before.term, before.vote)
        twin.note(ticket, is_vote or snapshot is not None)

    def append(self, identity: bytes, count: int, back: int = 0) -> None:
        """Append entries, behind a number of entries that they replace.

        An entry of one index and term is the same for ever, so a replacement is of a later term.
        """
        log = self.log(identity)
        first = max(log.last_index + 1 - back, log.first_index)
        state = None
        if first <= log.last_index:
            state = GroupState(log.state.term + 1, "", log.snapshot.index)
        term = log.state.term if state is None else state.term
        entries = [self.entry(term, first + at) for at in range(count)]
        self.save(identity, state=state, entries=entries)

    def entry(self, term: int, index: int) -> GroupEntry:
        self.counter += 1
        data = b"%d " % self.counter * (1 + self.counter % 9)
        return GroupEntry(index, term, self.counter % 3, self.counter, self.counter % 2, data)

    def vote(self, identity: bytes, name: str, back: int = 0) -> None:
        """Enter a term with a vote, and write its first entry."""
        log = self.log(identity)
        state = GroupState(log.state.term + 1, name, log.snapshot.index)
        first = max(log.last_index + 1 - back, log.first_index)
        self.save(identity, state=state, entries=[self.entry(state.term, first)])

    def truncate(self, identity: bytes) -> None:
        log = self.log(identity)
        first = max(log.last_index, log.first_index)
        ticket = log.truncate(first)
        self.twins[identity].step(cut=first)
        self.twins[identity].note(ticket, is_promise=False)

    def install(self, identity: bytes) -> None:
        """Replace a log by a snapshot."""
        log = self.log(identity)
        term = log.state.term + 1
        snapshot = SnapshotMark(log.last_index + 10, term, b"installed %d" % self.counter)
        state = GroupState(term, "", snapshot.index)
        self.save(identity, snapshot, state, [self.entry(state.term, snapshot.index + 1)])

    def compact(self, identity: bytes, keeps: int) -> None:
        """Give up all entries but some; they are written."""
        log = self.log(identity)
        index = max(log.last_index - keeps, log.snapshot.index)
        if index > log.snapshot.index:
            log.compact(index, b"members %d" % self.counter)
            self.twins[identity].step(compacted=log.snapshot)

    # --- turns ----------------------------------------------------------------------------------

    def confirm(self) -> None:
        """Let the replies leave that may leave."""
        numbers = self.store.groups.numbers
        for twin in self.twins.values():
            while twin.waiting and numbers.covers(twin.waiting[0][0]):
                _, position, must_last = twin.waiting.pop(0)
                twin.after_kill = position
                if must_last:
                    twin.after_power_loss = position

    def commit(self) -> None:
        """End a turn: one write, one sync at most, and a trim if it is due."""
        commit = self.store.group_commit
        self.confirm()
        is_begun = commit.begin()
        self.confirm()
        if is_begun:
            commit.sync()
            commit.finish()
            self.confirm()
        if commit.is_trim_due:
            self.store.trim()


def has_log_of(found: Standing, promised: Standing) -> bool:
    """Whether a log holds all of another one, and before that at most what it has given up."""
    first = promised.snapshot.index
    later = tuple(entry for entry in found.entries if entry.index > first)
    return promised.exists and found.snapshot.index <= first and later == promised.entries


def check_kept(
    host: GroupHost, store: Store, power_lost: bool, doubtful: frozenset[bytes] = frozenset()
) -> None:
    """Each group is in a state that it had, and holds what rests under a promise.

    `doubtful` are groups of which an earlier start has found that they may have forgotten.
    """
    is_damaged = any(
        finding.kind == "damaged" and finding.detail.startswith(("ahead", "group"))
        for finding in store.findings.reported
    )
    for identity, twin in host.twins.items():
        first = twin.after_power_loss if power_lost else twin.after_kill
        allowed = twin.standings[first:]
        if identity not in store.groups:
            assert GONE in allowed, f"{identity!r} is gone"
            continue
        log = store.groups[identity]
        found = standing_of(log)
        # Damage may have taken a hard state or a snapshot mark and left entries behind it.
        is_kept = any(has_log_of(found, each) for each in allowed) if is_damaged else False
        assert is_kept or found in allowed, f"{identity!r}: {found}\n{allowed}"
        assert found.state.term in [each.state.term for each in allowed], f"{identity!r}: {found}"
        is_doubtful = (
            identity in doubtful
            or twin.mode is GroupMode.MEMORY
            or (store.machine_fell and twin.mode is GroupMode.WRITTEN)
        )
        reports = store.findings.reported
        if not is_damaged or found.exists:
            assert log.may_have_forgotten == (is_doubtful or is_damaged), f"{identity!r} {reports}"
