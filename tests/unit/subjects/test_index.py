"""The index of subscriptions: the shape of answers, the bounds of the cache, no leftovers."""

import tracemalloc

import pytest

from headwater.subjects import index as index_module
from headwater.subjects.index import Route, SubscriptionIndex


class Member:
    """Members are compared by identity; the name is for reading failures."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def indexed(*entries: tuple[bytes, bytes | None]) -> tuple[SubscriptionIndex[Member], list[Member]]:
    index: SubscriptionIndex[Member] = SubscriptionIndex()
    members = [Member(f"{pattern!r}/{queue!r}") for pattern, queue in entries]
    for (pattern, queue), member in zip(entries, members, strict=True):
        index.insert(pattern, queue, member)
    return index, members


def shape(index: SubscriptionIndex[Member]) -> object:
    """All that is kept, in a form that can be compared."""

    def of_node(node: index_module._Node[Member] | None) -> object:
        return (
            None if node is None else (list(node.plain), {q: [*g] for q, g in node.groups.items()})
        )

    def of_level(level: index_module._Level[Member] | None) -> object:
        if level is None:
            return None
        children = {token: of_level(below) for token, below in level.children.items()}
        return children, of_level(level.star), of_node(level.full), of_node(level.node)

    tables = [{k: of_node(n) for k, n in t.items()} for t in (index._literals, index._prefixes)]
    return tables, of_level(index._root)


PATTERNS = [
    b"foo", b"foo.bar", b"*", b">", b"foo.*", b"*.bar", b"foo.>", b"*.>", b"foo.*.baz", b"*.*",
    b"foo.bar.*", b"foo.*.*", b"a.b.c.d.e.f", b"a.b.>", b"*.b.*.d.>", b"foo*", b"f>.o",
]  # fmt: skip


class TestMatching:
    @pytest.mark.parametrize("queue", [None, b"q"])
    @pytest.mark.parametrize("pattern", PATTERNS)
    def test_one_pattern_alone(self, pattern: bytes, queue: bytes | None) -> None:
        index, [member] = indexed((pattern, queue))
        subject = pattern.replace(b"*", b"x").replace(b">", b"y.z")
        if pattern in (b"foo*", b"f>.o"):
            subject = pattern
        route = index.match(subject)
        assert (route.plain, route.groups) == (
            ([member], []) if queue is None else ([], [[member]])
        )
        assert index.match(b"not." + subject + b".this.one").plain == (
            [member] if pattern in (b">", b"*.>") and queue is None else []
        )

    def test_every_kind_of_pattern_at_once(self) -> None:
        index, members = indexed(*((pattern, None) for pattern in PATTERNS))
        named = dict(zip(PATTERNS, members, strict=True))
        expected = [b"foo.bar", b">", b"foo.*", b"*.bar", b"foo.>", b"*.>", b"*.*"]
        assert set(index.match(b"foo.bar").plain) == {named[pattern] for pattern in expected}
        assert set(index.match(b"foo").plain) == {named[b"foo"], named[b"*"], named[b">"]}

    def test_one_group_across_patterns(self) -> None:
        index, (a, b, c, d) = indexed(
            (b"foo.bar", b"q"), (b"foo.*", b"q"), (b"foo.>", b"q"), (b"foo.>", b"other")
        )
        assert sorted(map(len, index.match(b"foo.bar").groups)) == [1, 3]
        assert set(index.match(b"foo.bar").groups[0]) == {a, b, c}
        assert index.match(b"foo.bar").groups[1] == [d]

    def test_the_same_member_under_two_patterns_is_there_twice(self) -> None:
        index: SubscriptionIndex[Member] = SubscriptionIndex()
        member = Member("m")
        index.insert(b"foo.*", None, member)
        index.insert(b"foo.>", None, member)
        assert index.match(b"foo.bar").plain == [member, member]

    @pytest.mark.parametrize("subject", [b"", b".", b"foo.", b".foo", b"foo..bar", b"foo.bar."])
    @pytest.mark.parametrize("others", [[], [b">"], [b"*.>"], [b"foo.*"], [b"*", b"foo.*.*"]])
    def test_subjects_with_empty_tokens_match_nothing(
        self, subject: bytes, others: list[bytes]
    ) -> None:
        index, _ = indexed(*((pattern, None) for pattern in [b"foo.*", b"*", b"foo.*.*", *others]))
        assert index.match(subject).size == 0

    def test_wildcards_in_a_published_subject_are_plain_tokens(self) -> None:
        index, (star, full, literal) = indexed(
            (b"foo.*", None), (b"foo.>", None), (b"foo.bar", None)
        )
        assert set(index.match(b"foo.*").plain) == {star, full}
        assert set(index.match(b"foo.>").plain) == {star, full}
        assert literal not in index.match(b"foo.*").plain

    def test_members_keep_the_order_they_came_in(self) -> None:
        index, members = indexed(*((b"foo", None) for _ in range(20)))
        index.remove(b"foo", None, members[7])
        index.insert(b"foo", None, members[7])
        assert index.match(b"foo").plain == members[:7] + members[8:] + [members[7]]


class TestRemoving:
    def test_what_was_not_there_is_not_removed(self) -> None:
        index, [member] = indexed((b"foo.bar", None))
        assert not index.remove(b"foo.bar", b"q", member)
        assert not index.remove(b"foo.*", None, member)
        assert not index.remove(b"foo.>", None, member)
        assert not index.remove(b"a.b.c.*.d", None, member)
        assert not index.remove(b"foo.bar", None, Member("other"))
        assert index.count == 1
        assert index.remove(b"foo.bar", None, member)
        assert not index.remove(b"foo.bar", None, member)
        assert index.count == 0

    @pytest.mark.parametrize("queue", [None, b"q"])
    def test_removed_patterns_leave_nothing_behind(self, queue: bytes | None) -> None:
        index, members = indexed(*((pattern, queue) for pattern in PATTERNS))
        for pattern, member in zip(PATTERNS, members, strict=True):
            assert index.remove(pattern, queue, member)
        fresh: SubscriptionIndex[Member] = SubscriptionIndex()
        assert shape(index) == shape(fresh)
        assert index.count == 0

    def test_removing_one_leaves_the_shape_of_the_others(self) -> None:
        for gone in PATTERNS:
            index, members = indexed(*((pattern, None) for pattern in PATTERNS))
            index.remove(gone, None, members[PATTERNS.index(gone)])
            rest: SubscriptionIndex[Member] = SubscriptionIndex()
            for pattern, member in zip(PATTERNS, members, strict=True):
                if pattern != gone:
                    rest.insert(pattern, None, member)
            assert shape(index) == shape(rest), gone

    def test_counters(self) -> None:
        index, members = indexed((b"foo", None), (b"foo", b"q"), (b"*", None))
        index.remove(b"foo", b"q", members[1])
        index.match(b"foo")
        assert (index.count, index.inserts, index.removes, index.matches) == (2, 3, 1, 1)


class TestRoutes:
    def test_a_route_that_was_handed_out_never_changes(self) -> None:
        index, members = indexed((b"foo", None), (b"foo", b"q"), (b"*", None), (b"*", b"q"))
        before = [index.match(b"foo"), index.match(b"bar")]
        seen = [(list(r.plain), [list(g) for g in r.groups]) for r in before]
        index.insert(b"foo", None, Member("late"))
        index.insert(b"foo", b"q", Member("late"))
        index.insert(b"*", b"new", Member("late"))
        index.remove(b"*", None, members[2])
        index.remove(b"foo", b"q", members[1])
        assert [(r.plain, r.groups) for r in before] == seen
        assert index.match(b"foo") is not before[0]

    def test_the_size_counts_plain_members_and_all_of_every_group(self) -> None:
        assert Route([1], [[2, 3], [4]]).size == 4
        assert Route([], []).size == 0


class TestCache:
    def test_combined_answers_are_remembered(self) -> None:
        index, _ = indexed((b"foo.bar", None), (b"foo.>", None))
        first = index.match(b"foo.bar")
        assert index.match(b"foo.bar") is first
        assert (index.cached, index.cache_hits) == (1, 1)

    @pytest.mark.parametrize("pattern", [b"foo.bar", b"foo.*", b">", b"*.bar", b"foo.>"])
    @pytest.mark.parametrize("queue", [None, b"q"])
    def test_a_change_is_seen_at_once(self, pattern: bytes, queue: bytes | None) -> None:
        index, _ = indexed((b"foo.bar", None), (b"foo.>", None))
        index.match(b"foo.bar")
        late = Member("late")
        index.insert(pattern, queue, late)
        route = index.match(b"foo.bar")
        assert late in (route.plain if queue is None else route.groups[0])
        index.remove(pattern, queue, late)
        assert index.match(b"foo.bar").size == 2

    def test_it_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(index_module, "CACHED_ROUTES_MAX", 10)
        index, _ = indexed((b">", None), (b"foo.>", None))
        for number in range(100):
            assert index.match(b"foo.%d" % number).size == 2
            assert index.cached <= 10

    @pytest.mark.parametrize(
        "patterns",
        [
            [],
            [b"_INBOX.*"],
            [b"_INBOX.me.*"],
            [b"_INBOX.me.*", b">", b"_INBOX.>"],
            [b"_INBOX.me.*", b"*.*.*"],
            [b"_INBOX.me.*", b"elsewhere.*.x"],
            [b"elsewhere.>"],
        ],
    )
    def test_reply_subjects_leave_nothing_behind(self, patterns: list[bytes]) -> None:
        index, _ = indexed(*((pattern, None) for pattern in patterns))
        index.match(b"_INBOX.me.first")
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(20_000):
                index.match(b"_INBOX.me.%d" % number)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert index.cached == 0
        assert after - before < 4096

    def test_its_bytes_are_bounded_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(index_module, "CACHED_BYTES_MAX", 1000)
        index, _ = indexed(*[(b">", None)] * 30, (b"foo.>", None))
        for number in range(100):
            assert index.match(b"foo.%d" % number).size == 31
            # Each has a list of 31 references of its own.
            assert index.cached <= 1000 // (31 * 8)

    def test_routes_that_share_a_pattern_s_members_cost_only_their_subject(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(index_module, "CACHED_BYTES_MAX", 1000)
        index, _ = indexed(*[(b">", None)] * 200)
        for number in range(100):
            index.match(b"foo.%d" % number)
        assert index.cached == 100


def test_subjects_may_have_more_tokens_than_python_has_stack() -> None:
    tokens = 2000
    stars = b".".join([b"*"] * tokens)
    index, members = indexed((b"*." + stars, None), (stars + b".>", None), (b"*.x." + stars, None))
    assert set(index.match(b"a." + b".".join([b"b"] * tokens)).plain) == {members[0], members[1]}


@pytest.mark.parametrize(
    ("route", "large"),
    [
        (Route([1] * 16, []), False),
        (Route([1] * 17, []), True),
        (Route([1], [[2]] * 16), True),
        (Route([], [[1] * 100]), False),
    ],
)
def test_a_route_is_large_by_the_copies_it_makes(route: Route[int], large: bool) -> None:
    assert route.is_large is large


def test_many_subjects_have_one_route_only_if_each_alone_has_it() -> None:
    """`match_all` tells a route or nothing; it never tells another route than `match`."""
    index: SubscriptionIndex[str] = SubscriptionIndex()
    index.insert(b"_INBOX.a.*", None, "a")
    replies = [b"_INBOX.a.1", b"_INBOX.a.22"]
    found = index.match_all(replies)
    assert found is not None
    assert [found.plain, found.groups] == [["a"], []]
    for other in (b"_INBOX.b.1", b"_INBOX.a", b"_INBOX.a.", b"_INBOX.a.1.2", b"x"):
        assert index.match_all([*replies, other]) is None
    index.insert(b"_INBOX.a.22", None, "literal")
    assert index.match_all(replies) is None
    index.remove(b"_INBOX.a.22", None, "literal")
    index.insert(b"_INBOX.>", None, "everything")
    assert index.match_all(replies) is None


@pytest.mark.parametrize("subject", [b"_INBOX.a.1", b"_INBOX.b", b"reply", b"$G.x"])
def test_one_subject_many_times_has_the_route_it_has_once(subject: bytes) -> None:
    index: SubscriptionIndex[str] = SubscriptionIndex()
    index.insert(b"_INBOX.*", None, "star")
    index.insert(b"_INBOX.>", b"group", "everything")
    index.insert(b"reply", None, "literal")
    many, once = index.match_all([subject] * 3), index.match(subject)
    assert many is not None
    assert (many.plain, many.groups) == (once.plain, once.groups)
    assert index.matches == 4
    assert index.match_all([subject, b"x", subject]) is None
