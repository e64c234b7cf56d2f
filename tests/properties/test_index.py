"""The index against a list: insert, remove and match in any order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from headwater.subjects.grammar import matches
from headwater.subjects.index import Route, SubscriptionIndex

tokens = st.sampled_from([b"a", b"b", b"c"])
pattern_tokens = st.sampled_from([b"a", b"b", b"*", b"a*"])
patterns = st.builds(
    lambda front, last: b".".join([*front, last]),
    st.lists(pattern_tokens, max_size=3),
    pattern_tokens | st.just(b">"),
)
subjects = st.lists(tokens | st.sampled_from([b"*", b">", b"a*", b""]), min_size=1, max_size=4).map(
    b".".join
)
queues = st.sampled_from([None, None, b"q", b"r"])

Entry = tuple[bytes, bytes | None, object]
Seen = tuple[list[object], list[list[object]]]


class IndexAgainstList(RuleBasedStateMachine):
    """The index answers as a list of subscriptions and `matches` would."""

    entries = Bundle("entries")

    def __init__(self) -> None:
        super().__init__()
        self.index: SubscriptionIndex[object] = SubscriptionIndex()
        self.listed: list[Entry] = []
        self.handed_out: list[tuple[Route[object], Seen]] = []

    @rule(target=entries, pattern=patterns, queue=queues)
    def insert(self, pattern: bytes, queue: bytes | None) -> Entry:
        entry = (pattern, queue, object())
        self.index.insert(*entry)
        self.listed.append(entry)
        return entry

    @rule(entry=consumes(entries))
    def remove(self, entry: Entry) -> None:
        assert self.index.remove(*entry)
        assert not self.index.remove(*entry)
        self.listed.remove(entry)

    @rule(pattern=patterns, queue=queues)
    def remove_a_stranger(self, pattern: bytes, queue: bytes | None) -> None:
        assert not self.index.remove(pattern, queue, object())

    @rule(subject=subjects)
    def match(self, subject: bytes) -> None:
        found = self.index.match(subject)
        whole = b"" not in subject.split(b".")
        matching = [e for e in self.listed if whole and matches(e[0], subject)]
        assert set(found.plain) == {member for _, queue, member in matching if queue is None}
        assert len(found.plain) == len(set(found.plain))
        assert {frozenset(group) for group in found.groups} == {
            frozenset(member for _, other, member in matching if other == queue)
            for _, queue, _ in matching
            if queue is not None
        }
        self.handed_out.append((found, (list(found.plain), [list(g) for g in found.groups])))

    @invariant()
    def counts_agree(self) -> None:
        assert self.index.count == len(self.listed)

    @invariant()
    def routes_handed_out_do_not_change(self) -> None:
        assert all((route.plain, route.groups) == seen for route, seen in self.handed_out)

    def teardown(self) -> None:
        for entry in self.listed:
            assert self.index.remove(*entry)
        empty: SubscriptionIndex[object] = SubscriptionIndex()
        for name in ("_literals", "_prefixes"):
            assert getattr(self.index, name) == getattr(empty, name)
        assert self.index._root.is_empty


TestIndexAgainstList = IndexAgainstList.TestCase
TestIndexAgainstList.settings = settings(max_examples=60, stateful_step_count=40)
