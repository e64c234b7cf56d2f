"""Permissions to publish and subscribe: nats-server's rules, one by one."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.server.configuration.options import (
    Permissions,
    ResponsePermission,
    SubjectPermission,
)
from headwater.server.core import permissions as permissions_module
from headwater.server.core.permissions import ConnectionPermissions

Names = tuple[str, ...]


def publishing(allow: Names | None = None, deny: Names | None = None) -> ConnectionPermissions:
    return ConnectionPermissions(Permissions(publish=SubjectPermission(allow, deny)))


def subscribing(allow: Names | None = None, deny: Names | None = None) -> ConnectionPermissions:
    return ConnectionPermissions(Permissions(subscribe=SubjectPermission(allow, deny)))


def responding(max_msgs: int = 1, ttl_s: float = 120.0, allow: Names = ()) -> ConnectionPermissions:
    return ConnectionPermissions(
        Permissions(
            publish=SubjectPermission(allow=allow),
            allow_responses=ResponsePermission(max_msgs, ttl_s),
        )
    )


class TestPublish:
    def test_without_lists_everything_is_allowed(self) -> None:
        everything = ConnectionPermissions(Permissions())
        assert not everything.restricts_publishing
        assert everything.may_publish(b"anything.at.all", 0)

    def test_an_empty_allow_list_allows_nothing_but_no_list_everything(self) -> None:
        assert not publishing(allow=()).may_publish(b"foo", 0)
        assert publishing(allow=None, deny=()).may_publish(b"foo", 0)

    @pytest.mark.parametrize(
        ("allow", "deny", "yes", "no"),
        [
            (("foo", "bar.*"), None, [b"foo", b"bar.x"], [b"foo.x", b"bar", b"bar.x.y"]),
            ((">",), ("secret.>",), [b"foo", b"secret"], [b"secret.a", b"secret.a.b"]),
            (None, ("foo", "*.bar"), [b"bar", b"foo.baz"], [b"foo", b"foo.bar"]),
            # Deny wins over allow.
            (("foo.*",), ("foo.bar",), [b"foo.baz"], [b"foo.bar"]),
            (("foo",), ("foo",), [], [b"foo"]),
        ],
    )
    def test_lists(
        self, allow: Names | None, deny: Names | None, yes: list[bytes], no: list[bytes]
    ) -> None:
        rules = publishing(allow, deny)
        # Twice: the second answer is remembered.
        for _ in range(2):
            assert [s for s in yes if not rules.may_publish(s, 0)] == []
            assert [s for s in no if rules.may_publish(s, 0)] == []

    def test_a_wildcard_in_a_published_subject_is_a_plain_token(self) -> None:
        assert publishing(allow=("foo.*",)).may_publish(b"foo.*", 0)
        assert publishing(deny=("foo.bar",)).may_publish(b"foo.*", 0)

    def test_queue_names_mean_nothing_here(self) -> None:
        # An allow entry of that form allows nothing; a deny entry still denies its subject.
        assert not publishing(allow=("foo q",)).may_publish(b"foo", 0)
        assert not publishing(deny=("foo q",)).may_publish(b"foo", 0)

    @pytest.mark.parametrize("entry", ["", "foo..bar", "foo.>.bar", "a b c"])
    def test_an_entry_that_is_no_subject_is_passed_over(self, entry: str) -> None:
        rules = publishing(allow=(entry, "ok"))
        assert rules.may_publish(b"ok", 0)
        assert not rules.may_publish(b"foo", 0)

    def test_remembered_answers_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(permissions_module, "ANSWERS_MAX", 8)
        rules = publishing(allow=("foo.>",), deny=("foo.0",))
        for number in range(100):
            assert rules.may_publish(b"foo.%d" % number, 0) is (number != 0)
            assert len(rules._answers) <= 8
        assert not rules.may_publish(b"foo.0", 0)


class TestSubscribe:
    def test_an_empty_allow_list_is_no_list(self) -> None:
        assert subscribing(allow=()).may_subscribe(b"foo", None)

    @pytest.mark.parametrize(
        ("allow", "subject", "queue", "allowed"),
        [
            (("foo",), b"foo", None, True),
            (("foo",), b"foo", b"any", True),
            (("foo",), b"bar", None, False),
            (("foo.*",), b"foo.*", None, True),
            (("foo.>",), b"foo.*", None, True),
            (("foo.bar",), b"foo.*", None, False),
            (("foo.*",), b">", None, False),
            # nats-server takes `>` for one token here and lets it in; that shows foo.a.b to
            # somebody who may not see it.
            (("foo.*",), b"foo.>", None, False),
            # With a queue named, only that queue; and no plain subscription.
            (("foo v1",), b"foo", None, False),
            (("foo v1",), b"foo", b"v1", True),
            (("foo v1",), b"foo", b"v2", False),
            # Named besides a plain entry: plain stays, queues only those named.
            (("foo", "foo v1"), b"foo", None, True),
            (("foo", "foo v1"), b"foo", b"v1", True),
            (("foo", "foo v1"), b"foo", b"v2", False),
            # Queue names can be patterns, and are also compared as they are.
            (("foo v1.*",), b"foo", b"v1.a", True),
            (("foo v1.*",), b"foo", b"v1.*", True),
            (("foo v1.>",), b"foo", b"v1.a.b", True),
            (("foo v1.>",), b"foo", b"v2.a", False),
            (("foo >",), b"foo", b"anything", True),
            (("foo *.dev", "foo v1"), b"foo", b"x.dev", True),
            (("foo a..b",), b"foo", b"a..b", False),
        ],
    )
    def test_allow(self, allow: Names, subject: bytes, queue: bytes | None, allowed: bool) -> None:
        assert subscribing(allow).may_subscribe(subject, queue) is allowed

    @pytest.mark.parametrize(
        ("deny", "subject", "queue", "allowed"),
        [
            (("foo",), b"foo", None, False),
            (("foo",), b"foo", b"q", False),
            (("foo.>",), b"foo.bar", None, False),
            # A wider subscription is let in; denied messages are filtered at delivery.
            (("foo.bar",), b"foo.*", None, True),
            (("foo.bar",), b">", None, True),
            (("foo.*",), b"foo.*", None, False),
            (("foo q",), b"foo", None, True),
            (("foo q",), b"foo", b"q", False),
            (("foo q",), b"foo", b"other", True),
            (("foo q.*",), b"foo", b"q.1", False),
            (("> *.dev",), b"foo", b"x.dev", False),
        ],
    )
    def test_deny(self, deny: Names, subject: bytes, queue: bytes | None, allowed: bool) -> None:
        assert subscribing(deny=deny).may_subscribe(subject, queue) is allowed

    @pytest.mark.parametrize(
        ("deny", "subject", "queue", "filters"),
        [
            (("foo.bar",), b"foo.*", None, True),
            (("foo.bar",), b"bar.*", None, False),
            (("foo.bar",), b"bar", None, False),
            (("foo.*.x",), b"foo.>", None, True),
            (("foo q",), b"foo", b"other", True),
            (("bar",), b"foo", b"q", False),
        ],
    )
    def test_deliveries_are_filtered_only_where_a_deny_can_meet_them(
        self, deny: Names, subject: bytes, queue: bytes | None, filters: bool
    ) -> None:
        rules = subscribing(deny=deny)
        assert not rules.filters_deliveries
        assert rules.may_subscribe(subject, queue)
        assert rules.filters_deliveries is filters
        # Another subscription does not turn the filter off again.
        assert rules.may_subscribe(b"quite.different", None)
        assert rules.filters_deliveries is filters

    def test_what_is_filtered_at_delivery(self) -> None:
        rules = subscribing(deny=("foo.bar", "foo.baz q"))
        assert not rules.may_receive(b"foo.bar", None)
        assert rules.may_receive(b"foo.baz", None)
        assert not rules.may_receive(b"foo.baz", b"q")
        assert rules.may_receive(b"foo.baz", b"r")
        assert rules.may_receive(b"foo", None)
        assert ConnectionPermissions(Permissions()).may_receive(b"foo", None)


class TestResponses:
    def test_only_what_was_asked_for_may_be_answered(self) -> None:
        rules = responding()
        assert rules.tracks_replies
        assert not rules.may_publish(b"reply.1", 0)
        rules.delivered_reply(b"reply.1", 0)
        assert rules.may_publish(b"reply.1", 0)
        assert not rules.may_publish(b"reply.2", 0)

    def test_as_often_as_allowed(self) -> None:
        rules = responding(max_msgs=3)
        rules.delivered_reply(b"r", 0)
        assert [rules.may_publish(b"r", 0) for _ in range(5)] == [True] * 3 + [False] * 2

    def test_a_negative_count_is_any_number(self) -> None:
        rules = responding(max_msgs=-1)
        rules.delivered_reply(b"r", 0)
        assert all(rules.may_publish(b"r", 0) for _ in range(1000))

    def test_as_long_as_allowed(self) -> None:
        rules = responding(max_msgs=-1, ttl_s=2.0)
        rules.delivered_reply(b"r", 5 * NS_PER_S)
        assert rules.may_publish(b"r", 7 * NS_PER_S)
        assert not rules.may_publish(b"r", 7 * NS_PER_S + 1)
        # A permission that has expired is forgotten, not suspended.
        assert not rules.may_publish(b"r", 6 * NS_PER_S)

    def test_a_negative_time_is_for_ever(self) -> None:
        rules = responding(ttl_s=-1.0)
        rules.delivered_reply(b"r", 0)
        assert rules.may_publish(b"r", 10**9 * NS_PER_S)

    def test_what_the_allow_list_has_is_not_counted(self) -> None:
        rules = responding(max_msgs=1, allow=("ok",))
        rules.delivered_reply(b"ok", 0)
        assert all(rules.may_publish(b"ok", 0) for _ in range(10))

    def test_what_was_refused_before_may_be_allowed_later(self) -> None:
        rules = responding()
        assert not rules.may_publish(b"r", 0)
        rules.delivered_reply(b"r", 0)
        assert rules.may_publish(b"r", 0)

    def test_a_deny_does_not_stop_a_response(self) -> None:
        rules = ConnectionPermissions(
            Permissions(
                publish=SubjectPermission(allow=("foo",), deny=("r",)),
                allow_responses=ResponsePermission(),
            )
        )
        rules.delivered_reply(b"r", 0)
        assert rules.may_publish(b"r", 0)

    def test_remembered_replies_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(permissions_module, "REPLIES_MAX", 10)
        rules = responding(max_msgs=-1, ttl_s=-1)
        for number in range(1000):
            rules.delivered_reply(b"r%d" % number, number)
            assert len(rules._replies) <= 10
            assert rules.may_publish(b"r%d" % number, number)

    def test_of_too_many_the_used_and_the_late_go_first(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(permissions_module, "REPLIES_MAX", 10)
        rules = responding(max_msgs=1, ttl_s=1)
        for number in range(5):
            rules.delivered_reply(b"late%d" % number, 0)
        now_ns = 2 * NS_PER_S
        for number in range(4):
            rules.delivered_reply(b"used%d" % number, now_ns)
            assert rules.may_publish(b"used%d" % number, now_ns)
        rules.delivered_reply(b"fresh", now_ns)
        rules.delivered_reply(b"one.more", now_ns)
        assert set(rules._replies) == {b"fresh", b"one.more"}


def test_who_has_gone_may_do_no_more_than_before() -> None:
    rights = ConnectionPermissions(
        Permissions(SubjectPermission(allow=("mine",)), None, ResponsePermission())
    )
    rights.delivered_reply(b"reply", 0)
    assert rights.may_publish(b"mine", 0)
    rights.forget()
    assert rights.may_publish(b"mine", 0)
    assert not rights.may_publish(b"other", 0)
    assert not rights.may_publish(b"reply", 0)
