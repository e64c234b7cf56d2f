"""Durable state changes in `apply` only, and the store is written by committers and upkeep only.

Each object that holds durable state has methods that change it. The lists below name every function
that calls one of them; a caller that is new has to stand below `apply`, or on the other list with a
reason. The check reads the source: a method is known by its name and by the name of the object on
which it is called.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parent.parent / "src" / "headwater"
PACKAGES: Final = ("jetstream", "server")


class Holder(NamedTuple):
    """An object with durable state: its names in the code, and the methods that change it."""

    names: frozenset[str]
    methods: frozenset[str]


LOG: Final = Holder(
    frozenset({"log", "_log"}),
    frozenset(
        {
            "append",
            "append_encoded",
            "skip",
            "delete",
            "deleting",
            "write_entries",
            "set_body",
            "rewrite_journal_now",
            "write_journal",
        }
    ),
)
IDS: Final = Holder(
    frozenset({"dedupe"}), frozenset({"add", "add_all", "forget_before", "setting_window"})
)
CONSUMER_STATE: Final = Holder(
    frozenset({"state"}),
    frozenset(
        {
            "deliver",
            "acknowledge",
            "acknowledge_up_to",
            "give_up",
            "forget_before",
            "cut",
            "restore",
            "undo",
        }
    ),
)
ENTRIES: Final = Holder(frozenset({"_log", "log"}), frozenset({"add_entry", "withdraw_entries"}))


class Caller(NamedTuple):
    module: str
    function: str


def callers(source: str, module: str, holder: Holder) -> set[Caller]:
    """The functions of a module that call a method of a holder."""
    found = set()
    for function, node in _functions(ast.parse(source)):
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and _is_call_of(call.func, holder):
                found.add(Caller(module, function))
    return found


def _functions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The outermost functions, with the name of their class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for name, function in _functions(node):
                yield f"{node.name}.{name}", function


def _is_call_of(called: ast.AST, holder: Holder) -> bool:
    if not isinstance(called, ast.Attribute) or called.attr not in holder.methods:
        return False
    target = called.value
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    return name in holder.names


def all_callers(holder: Holder) -> set[Caller]:
    found = set()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            found |= callers(path.read_text(), path.relative_to(ROOT).as_posix(), holder)
    return found


# Functions below `Stream.apply`.
APPLY: Final = {
    LOG: {
        "jetstream/streams/stream.py": "Stream._changing Stream._purging_as_asked Stream._store",
        "jetstream/streams/removal.py": "_deleting_many deleting purging",
        # The journal gets the records of consumers that were applied.
        "jetstream/consumers/collection.py": "Consumers.flush Consumers._rewrite_journal",
    },
    IDS: {
        "jetstream/streams/stream.py": "Stream._note_ids Stream._reconfiguring Stream._store",
    },
    CONSUMER_STATE: {
        "jetstream/consumers/machine.py": "Consumer._forget_before Consumer.apply",
    },
    ENTRIES: {},
}
# Functions that change the state of a stream which does not run yet, and others with their reasons.
OTHERS: Final = {
    LOG: {
        # A stream that is restored from a backup is none before its last file is written.
        "jetstream/api/restore.py": "apply_limits",
        "jetstream/api/restored_consumers.py": "write_consumers",
        "jetstream/backup/files_form.py": "FilesForm._remove_deleted",
        "jetstream/backup/filling.py": "Filler.flush Filler.skip_to",
        "server/streams/storage/stream_store.py": "StreamStore.finish_log",
        # Half a batch that a crash has left in the files of a stream without entries.
        "jetstream/streams/recovery.py": "_remove_unfinished_batch",
    },
    IDS: {
        "jetstream/streams/recovery.py": "_find_ids",
        # Ids whose window is over count for nothing, and only take memory.
        "jetstream/streams/schedules/due.py": "DueWork.decide",
    },
    CONSUMER_STATE: {
        "jetstream/backup/consumers.py": "backed_up",
        "jetstream/consumers/codec.py": "restore_state",
        # Records that were applied ahead of the log are taken back.
        "jetstream/consumers/machine.py": "Consumer._put_back Consumer.recovered",
    },
    ENTRIES: {"jetstream/committers.py": "Synced._add Synced.retreat"},
}


def listed(holder: Holder) -> set[Caller]:
    return {
        Caller(module, function)
        for table in (APPLY, OTHERS)
        for module, functions in table[holder].items()
        for function in functions.split()
    }


@pytest.mark.parametrize(
    "holder", [LOG, IDS, CONSUMER_STATE, ENTRIES], ids=lambda each: min(each.names)
)
def test_durable_state_is_changed_where_the_lists_say(holder: Holder) -> None:
    assert all_callers(holder) == listed(holder)


def test_a_change_outside_of_apply_is_found() -> None:
    source = """
class Stream:
    def decide(self, incoming):
        def store():
            self.log.append(incoming)
        return store

def purge(stream):
    stream.dedupe.forget_before(0)
    stream.other.append(1)
"""
    assert callers(source, "m.py", LOG) == {Caller("m.py", "Stream.decide")}
    assert callers(source, "m.py", IDS) == {Caller("m.py", "purge")}
