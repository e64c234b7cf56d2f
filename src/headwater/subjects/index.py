"""The index of subscriptions: from a published subject to the subscriptions that match it.

A subscription is in one of three places, by the form of its pattern:

* a pattern without wildcards is found by one dict look-up of the whole subject;
* a pattern whose only wildcard is a last `*` (`orders.*`, every inbox) by one look-up of the
  subject up to its last dot;
* all others are in a trie of tokens, entered only if its first level can match.

A subject that only one place matches gets that place's own Route, so a million different reply
subjects cost two look-ups each and leave nothing behind. Only results of the trie are cached, never
those of replies and acknowledgements; the cache is bounded, and dropped when a wildcard
subscription changes.

Invariant: a Route is never changed after it was returned; a change makes a new one.
"""

from typing import Final, Generic, TypeVar, final

from headwater.subjects.grammar import FULL, SEPARATOR, STAR

# Enough for the hot subjects of a busy server, and a limit of memory for their subjects and lists
# of members, whatever clients publish and subscribe to.
CACHED_ROUTES_MAX: Final = 8192
CACHED_BYTES_MAX: Final = 8 * 1024 * 1024
_REFERENCE_BYTES: Final = 8

# The number of copies of a message from which on a route counts as large.
LARGE_FAN_OUT_MIN: Final = 16

# Subjects that are hardly ever published to twice: replies and acknowledgements.
_PASSING: Final = (b"_INBOX.", b"$JS.ACK.")
# The prefix of the server's own subjects.
_OWN_PREFIX: Final = b"$"

M = TypeVar("M")


@final
class Route(Generic[M]):
    """The members that get a message: all of `plain`, and one of each list in `groups`."""

    __slots__ = ("groups", "is_large", "plain")

    def __init__(self, plain: list[M], groups: list[list[M]]) -> None:
        self.plain = plain
        self.groups = groups
        # Computed once, because every message needs it.
        self.is_large = self.fan_out > LARGE_FAN_OUT_MIN

    @property
    def fan_out(self) -> int:
        """The number of members that get each message."""
        return len(self.plain) + len(self.groups)

    @property
    def size(self) -> int:
        """The number of members of the route."""
        return len(self.plain) + sum(map(len, self.groups))


@final
class _Node(Generic[M]):
    """The members of one pattern, and their route."""

    __slots__ = ("groups", "made_route", "plain")

    def __init__(self) -> None:
        self.plain: dict[M, None] = {}
        self.groups: dict[bytes, dict[M, None]] = {}
        # None until it is asked for after a change.
        self.made_route: Route[M] | None = None

    def add(self, queue: bytes | None, member: M) -> None:
        if queue is None:
            self.plain[member] = None
        else:
            self.groups.setdefault(queue, {})[member] = None
        self.made_route = None

    def discard(self, queue: bytes | None, member: M) -> bool:
        members = self.plain if queue is None else self.groups.get(queue, {})
        if member not in members:
            return False
        del members[member]
        if queue is not None and not members:
            del self.groups[queue]
        self.made_route = None
        return True

    @property
    def is_empty(self) -> bool:
        return not self.plain and not self.groups

    def route(self) -> Route[M]:
        if self.made_route is None:
            self.made_route = Route(
                list(self.plain), [list(group) for group in self.groups.values()]
            )
        return self.made_route


@final
class _Level(Generic[M]):
    """One level of the trie. `star` and `full` stand apart from the literal tokens."""

    __slots__ = ("children", "full", "node", "star")

    def __init__(self) -> None:
        self.children: dict[bytes, _Level[M]] = {}
        self.star: _Level[M] | None = None
        self.full: _Node[M] | None = None
        self.node: _Node[M] | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.children or self.star or self.full or self.node)


@final
class SubscriptionIndex(Generic[M]):
    """Members by pattern and queue group. Members are compared by identity."""

    __slots__ = (
        "_below",
        "_cache",
        "_cached_bytes",
        "_caching",
        "_families",
        "_literals",
        "_nothing",
        "_prefixes",
        "_root",
        "cache_hits",
        "count",
        "inserts",
        "matches",
        "removes",
    )

    def __init__(self, caching: bool = True) -> None:
        self._caching = caching
        self._literals: dict[bytes, _Node[M]] = {}
        self._prefixes: dict[bytes, _Node[M]] = {}
        # The number of patterns outside the trie in the server's own subjects, by two tokens.
        self._families: dict[bytes, int] = {}
        self._root: _Level[M] = _Level()
        # The routes that `match_below` has found since a member came or went.
        self._below: dict[bytes, Route[M]] = {}
        self._cache: dict[bytes, Route[M]] = {}
        # The size of all entries of the cache.
        self._cached_bytes = 0
        self._nothing: Route[M] = Route([], [])
        self.cache_hits = 0
        self.count = 0
        self.inserts = 0
        self.removes = 0
        self.matches = 0

    @property
    def cached(self) -> int:
        """The number of routes in the cache."""
        return len(self._cache)

    def insert(self, pattern: bytes, queue: bytes | None, member: M) -> None:
        """Add a member. The pattern must be valid."""
        self._node_for(pattern).add(queue, member)
        self._forget(pattern)
        self.count += 1
        self.inserts += 1

    def remove(self, pattern: bytes, queue: bytes | None, member: M) -> bool:
        """Remove a member. Returns False if it was not there."""
        node = self._find(pattern)
        if node is None or not node.discard(queue, member):
            return False
        if node.is_empty:
            self._drop(pattern)
        self._forget(pattern)
        self.count -= 1
        self.removes += 1
        return True

    def match(self, subject: bytes) -> Route[M]:
        """The route of a published subject."""
        self.matches += 1
        route = self._cache.get(subject)
        if route is not None:
            self.cache_hits += 1
            return route
        found = self._literals.get(subject)
        dot = subject.rfind(b".") + 1
        # A prefix has no empty token; the token after it must not be empty either.
        by_prefix = self._prefixes.get(subject[:dot]) if dot < len(subject) else None
        root = self._root
        # A pattern in the trie that begins with a literal token has more tokens than that one.
        if (
            root.star is not None
            or root.full is not None
            or (root.children and subject[: subject.find(b".")] in root.children)
        ):
            return self._match_with_trie(subject, found, by_prefix)
        if by_prefix is None:
            return self._nothing if found is None else found.route()
        if found is not None:
            return _combine([found, by_prefix])
        # Every reply comes here: no call if the route is made.
        return by_prefix.made_route or by_prefix.route()

    def match_all(self, subjects: list[bytes]) -> Route[M] | None:
        """The route of many subjects, if one look-up shows that all have the same; else None.

        Replies to one requester have: they differ in their last token, and one subscription ending
        in `*` matches them. So have the replies to one request.
        """
        first = subjects[0]
        if subjects[-1] == first and subjects.count(first) == len(subjects):
            self.matches += len(subjects) - 1
            return self.match(first)
        dot = first.rfind(b".") + 1
        prefix = first[:dot]
        by_prefix = self._prefixes.get(prefix)
        root = self._root
        if (
            by_prefix is None
            or root.star is not None
            or root.full is not None
            or (root.children and first[: first.find(b".")] in root.children)
            or not self._literals.keys().isdisjoint(subjects)
        ):
            return None
        # All subjects are searched as one row, in which a blank ends each: all begin with the
        # prefix, none has another dot behind it, and a token follows it.
        row = b" ".join(subjects) + b" "
        if (
            (b" " + row).count(b" " + prefix) != len(subjects)
            or row.count(SEPARATOR) != prefix.count(SEPARATOR) * len(subjects)
            or b". " in row
        ):
            return None
        self.matches += len(subjects)
        return by_prefix.route()

    def match_below(self, family: bytes) -> Route[M] | None:
        """The route of all longer subjects that begin with two tokens of the server's own.

        None unless one pattern, such as `$JS.ACK.>`, matches all of them and no other matches any.
        """
        route = self._below.get(family)
        if route is None:
            route = self._find_below(family)
            if route is not None:
                self._below[family] = route
        return route

    def _find_below(self, family: bytes) -> Route[M] | None:
        first, _, second = family.partition(SEPARATOR)
        root = self._root
        if root.star is not None or root.full is not None or family in self._families:
            return None
        level = root.children.get(first)
        if level is None or level.star is not None or level.full is not None:
            return None
        level = level.children.get(second)
        if level is None or level.full is None or level.star is not None or level.children:
            return None
        return level.full.route()

    def _match_with_trie(
        self, subject: bytes, found: _Node[M] | None, by_prefix: _Node[M] | None
    ) -> Route[M]:
        tokens = subject.split(SEPARATOR)
        if b"" in tokens:
            return self._nothing
        nodes = [node for node in (found, by_prefix) if node is not None]
        _collect(self._root, tokens, nodes)
        if not nodes:
            return self._nothing
        route = nodes[0].route() if len(nodes) == 1 else _combine(nodes)
        if by_prefix is None and self._caching and not subject.startswith(_PASSING):
            self._remember(subject, route, len(nodes) > 1)
        return route

    def _remember(self, subject: bytes, route: Route[M], is_own: bool) -> None:
        """Cache a route; `is_own` if its lists of members do not belong to a pattern."""
        size = len(subject) + (_REFERENCE_BYTES * route.size if is_own else 0)
        if len(self._cache) >= CACHED_ROUTES_MAX or self._cached_bytes + size > CACHED_BYTES_MAX:
            self._drop_cache()
        self._cache[subject] = route
        self._cached_bytes += size

    def _drop_cache(self) -> None:
        self._cache.clear()
        self._cached_bytes = 0

    def _forget(self, pattern: bytes) -> None:
        """Drop the entries that a change of `pattern` makes stale."""
        self._below.clear()
        if not self._cache:
            return
        if STAR in pattern or FULL in pattern:
            self._drop_cache()
        else:
            self._cache.pop(pattern, None)

    def _node_for(self, pattern: bytes) -> _Node[M]:
        tokens = pattern.split(SEPARATOR)
        table, key = self._table_of(pattern, tokens)
        if table is not None:
            node = table.get(key)
            if node is None:
                node = table[key] = _Node()
                self._count_family(tokens, 1)
            return node
        level = self._root
        if tokens[-1] == FULL:
            for token in tokens[:-1]:
                level = _descend(level, token)
            if level.full is None:
                level.full = _Node()
            return level.full
        for token in tokens:
            level = _descend(level, token)
        if level.node is None:
            level.node = _Node()
        return level.node

    def _count_family(self, tokens: list[bytes], change: int) -> None:
        """Count a pattern outside the trie that was added or removed."""
        if tokens[0].startswith(_OWN_PREFIX) and len(tokens) > 1:
            family = SEPARATOR.join(tokens[:2])
            count = self._families.get(family, 0) + change
            if count:
                self._families[family] = count
            else:
                del self._families[family]

    def _table_of(
        self, pattern: bytes, tokens: list[bytes]
    ) -> tuple[dict[bytes, _Node[M]] | None, bytes]:
        """The dict and key of a pattern outside the trie."""
        if tokens[-1] == FULL or STAR in tokens[:-1]:
            return None, b""
        if tokens[-1] == STAR:
            return self._prefixes, pattern[:-1]
        return self._literals, pattern

    def _find(self, pattern: bytes) -> _Node[M] | None:
        tokens = pattern.split(SEPARATOR)
        table, key = self._table_of(pattern, tokens)
        if table is not None:
            return table.get(key)
        level: _Level[M] | None = self._root
        full = tokens[-1] == FULL
        for token in tokens[:-1] if full else tokens:
            if level is None:
                return None
            level = level.star if token == STAR else level.children.get(token)
        if level is None:
            return None
        return level.full if full else level.node

    def _drop(self, pattern: bytes) -> None:
        """Remove an empty node and the levels it leaves empty."""
        tokens = pattern.split(SEPARATOR)
        table, key = self._table_of(pattern, tokens)
        if table is not None:
            del table[key]
            self._count_family(tokens, -1)
            return
        path = [self._root]
        full = tokens[-1] == FULL
        walked = tokens[:-1] if full else tokens
        for token in walked:
            level = path[-1]
            below = level.star if token == STAR else level.children.get(token)
            if below is None:
                return
            path.append(below)
        if full:
            path[-1].full = None
        else:
            path[-1].node = None
        for depth in range(len(walked), 0, -1):
            if not path[depth].is_empty:
                return
            if walked[depth - 1] == STAR:
                path[depth - 1].star = None
            else:
                del path[depth - 1].children[walked[depth - 1]]


def _descend(level: _Level[M], token: bytes) -> _Level[M]:
    if token == STAR:
        if level.star is None:
            level.star = _Level()
        return level.star
    below = level.children.get(token)
    if below is None:
        below = level.children[token] = _Level()
    return below


def _collect(root: _Level[M], tokens: list[bytes], nodes: list[_Node[M]]) -> None:
    """Collect every trie node that matches `tokens`.

    Not recursive: a subject may have more tokens than Python's stack has frames.
    """
    end = len(tokens)
    # Levels whose literal branch was not visited yet, with the depth of its token.
    left: list[tuple[_Level[M], int]] = []
    level: _Level[M] | None = root
    depth = 0
    while True:
        while level is not None:
            if depth == end:
                if level.node is not None:
                    nodes.append(level.node)
                break
            if level.full is not None:
                nodes.append(level.full)
            if level.star is None:
                level = level.children.get(tokens[depth])
            else:
                if level.children:
                    left.append((level, depth))
                level = level.star
            depth += 1
        if not left:
            return
        level, depth = left.pop()
        level = level.children.get(tokens[depth])
        depth += 1


def _combine(nodes: list[_Node[M]]) -> Route[M]:
    """One route over several patterns; equal queue names form one group."""
    plain: list[M] = []
    groups: dict[bytes, list[M]] = {}
    for node in nodes:
        plain.extend(node.plain)
        for queue, members in node.groups.items():
            groups.setdefault(queue, []).extend(members)
    return Route(plain, list(groups.values()))
