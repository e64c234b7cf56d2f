"""The subject space of an account, without clients."""

from headwater.server.core.subject_space import SubjectSpace


class TestWatching:
    """Watchers are called when a subscription to their subject comes or goes."""

    def test_every_watcher_of_the_subject_is_told_and_no_other(self) -> None:
        account, told = SubjectSpace[object, object]("A"), []
        for who in ("one", "two"):
            account.watch(b"here", who, lambda who=who: told.append(who))  # type: ignore[misc]
        account.watch(b"there", "three", lambda: told.append("three"))
        account.interest_changed(b"here")
        account.interest_changed(b"nowhere")
        assert told == ["one", "two"]

    def test_nothing_is_left_of_who_does_not_watch_any_more(self) -> None:
        account = SubjectSpace[object, object]("A")
        account.watch(b"here", "one", lambda: None)
        account.unwatch(b"here", "two")
        account.unwatch(b"there", "one")
        assert [*account.watched] == [b"here"]
        account.unwatch(b"here", "one")
        assert account.watched == {}

    def test_a_watcher_may_end_while_it_is_told(self) -> None:
        account, told = SubjectSpace[object, object]("A"), []

        def once() -> None:
            told.append("once")
            account.unwatch(b"here", "one")

        account.watch(b"here", "one", once)
        account.watch(b"here", "two", lambda: told.append("always"))
        for _ in range(2):
            account.interest_changed(b"here")
        assert told == ["once", "always", "always"]
