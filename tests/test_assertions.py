"""Every test asserts something.

A test asserts if its function, or a function of its module that it calls, has an `assert`, expects
an exception, or calls a check by its name. `ONLY_RUN` lists simulations, whose scenarios raise a
violation themselves, and tests whose whole rule is that nothing but a refusal is raised; the list
may only shrink.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

# A call of one of these words asserts: pytest's own, checks, and runs that raise a violation.
WORDS: Final = ("raises", "fail", "check", "assert", "expect", "same_")

ONLY_RUN: Final = frozenset(
    {
        "properties/test_snapshots.py:test_a_stream_of_a_snapshot_is_the_same_after_a_restart",
        "simulation/test_consumer_delivery.py:test_consumers_of_every_kind_keep_their_promises",
        "simulation/test_consumer_delivery.py:test_messages_stay_while_somebody_needs_them",
        "simulation/test_consumer_delivery.py:test_without_a_defence_nothing_shows_while_nothing_fails",
        "simulation/test_core_delivery.py:test_every_message_is_accounted_for",
        "simulation/test_read_levels.py:test_without_faults_a_rule_is_not_missed",
        "simulation/test_read_levels.py:test_without_faults_the_check_behind_a_read_is_not_missed",
        "simulation/test_replicated_streams.py:test_replies_before_the_commit_do_not_show_while_nothing_fails",
        "simulation/test_replicated_streams.py:test_streams_keep_their_promises",
        "simulation/test_stream_durability.py:test_what_was_promised_holds",
        "simulation/test_stream_durability.py:test_without_a_defence_nothing_shows_while_nothing_fails",
        "simulation/test_unknown_publishes.py:test_each_scenario_holds_with_its_defence",
        "simulation/test_unknown_publishes.py:test_unknown_publishes_appear_once_at_most",
        "simulation/test_work_queues.py:test_without_a_defence_nothing_shows_while_nothing_fails",
        "simulation/test_work_queues.py:test_work_is_done_and_done_once",
        "spark/test_rows.py:test_columns_that_say_where_a_message_was_are_passed_over",
        "unit/go/test_cron.py:test_any_text_is_a_pattern_or_refused",
        "unit/jetstream/backup/test_files_form.py:test_garbage_is_no_index",
        "unit/jetstream/backup/test_files_form.py:test_garbage_is_no_tar_archive",
        "unit/jetstream/backup/test_files_form.py:test_wrong_bytes_inside_are_refused_or_make_another_backup",
        "unit/jetstream/backup/test_writing_round_trip.py:test_any_row_of_entries_is_refused_or_harmless",
        "unit/jetstream/backup/test_writing_round_trip.py:test_garbage_in_an_archive_is_refused_or_harmless",
        "unit/jetstream/consumers/test_codec.py:test_no_body_does_harm",
        "unit/jetstream/consumers/test_codec.py:test_no_damage_does_harm",
        "unit/jetstream/streams/publishing/test_counters.py:test_any_last_message_is_counted_on_or_broken",
        "unit/runtime/sockets/test_client_connection.py:test_close_does_not_wait_for_ever_for_a_peer_that_does_not_read",
        "unit/runtime/sockets/test_http.py:test_a_peer_that_never_reads_its_answer_is_not_waited_for",
        "unit/runtime/test_memory_upkeep.py:test_memory_may_be_given_back_on_every_system",
        "unit/server/configuration/test_options.py:test_at_the_limit",
        "unit/subjects/test_transform.py:test_any_rule_is_parsed_or_refused",
    }
)


def functions_of(tree: ast.Module) -> dict[str, Function]:
    """All functions of a module by name, those of classes too."""
    return {node.name: node for node in ast.walk(tree) if isinstance(node, Function)}


def name_of(call: ast.Call) -> str:
    """The last word of the function that is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def asserts(function: Function, known: dict[str, Function], seen: frozenset[str]) -> bool:
    """Whether a function asserts, by itself or by others of its module."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = name_of(node)
            if any(word in name for word in WORDS):
                return True
            if any(keyword.arg == "check" for keyword in node.keywords):
                return True
            called = known.get(name)
            if called and name not in seen and asserts(called, known, seen | {name}):
                return True
    return False


def silent_tests(path: str, text: str) -> Iterator[str]:
    """The tests of a module that assert nothing, as `path:name`."""
    known = functions_of(ast.parse(text))
    for name, function in known.items():
        if name.startswith("test_") and not asserts(function, known, frozenset({name})):
            yield f"{path}:{name}"


def test_every_test_asserts_something() -> None:
    tests = ROOT / "tests"
    found = {
        each
        for path in tests.rglob("test_*.py")
        for each in silent_tests(path.relative_to(tests).as_posix(), path.read_text("utf-8"))
    }
    assert sorted(found - ONLY_RUN) == []
    assert sorted(ONLY_RUN - found) == [], "these assert: remove them from the list"


def test_a_test_without_an_assertion_is_found() -> None:
    assert [*silent_tests("x.py", "def test_x():\n    run()\n")] == ["x.py:test_x"]
    assert [*silent_tests("x.py", "def test_x():\n    assert run()\n")] == []
    assert [*silent_tests("x.py", "def test_x():\n    with raises(E):\n        run()\n")] == []
    assert [*silent_tests("x.py", "def test_x():\n    look()\ndef look():\n    assert 1\n")] == []
