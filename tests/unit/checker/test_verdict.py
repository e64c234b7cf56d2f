"""The text of a verdict."""

from headwater.checker.history import Delete
from headwater.checker.verdict import OFFENCES_SHOWN_MAX, BrokenPromise, Offence, verdict


def test_a_verdict_without_offences_holds() -> None:
    found = verdict("rule", [])
    assert found.holds
    assert str(found) == "rule: holds"


def test_a_broken_rule_names_its_operations() -> None:
    found = verdict("rule", [Offence("seen again", (Delete(client="o", begin_s=1, sequence=4),))])
    assert not found.holds
    assert "seen again" in str(found)
    assert "sequence=4" in str(found)


def test_a_report_shows_the_first_offences_and_counts_the_others() -> None:
    offences = [Offence(f"number {each}") for each in range(OFFENCES_SHOWN_MAX + 3)]
    text = str(verdict("rule", offences))
    assert f"number {OFFENCES_SHOWN_MAX - 1}" in text
    assert f"number {OFFENCES_SHOWN_MAX}" not in text
    assert "and 3 more" in text
    assert "more" not in str(verdict("rule", offences[:OFFENCES_SHOWN_MAX]))


def test_a_broken_promise_names_the_stream_and_the_rules() -> None:
    error = BrokenPromise("S", [verdict("first", [Offence("x")]), verdict("second", [])])
    assert error.rules == ["first", "second"]
    assert "stream S" in str(error)
