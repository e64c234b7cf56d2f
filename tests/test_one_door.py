"""Durable state changes in `apply` only, and the store is written by committers and upkeep only.

Each object that holds durable state has methods that change it. The lists below name every function
that calls one of them; a caller that is new has to stand below `apply`, or on the other list with a
reason. The check reads the source: a method is known by its name and by the name of the object on
which it is called, or by another name that the function gives to that object. A method that is
named without being called counts as called, because another function may call it.
"""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parent.parent / "src" / "headwater"
PACKAGES: Final = ("jetstream", "server")


class Holder(NamedTuple):
    """An object with durable state: its names in the code, and the methods that change it."""

    names: frozenset[str]
    methods: frozenset[str]
    # Attributes that are the state themselves.
    attributes: frozenset[str] = frozenset()
    # Whether the state is a mapping, which changes by its items too.
    has_items: bool = False
    # Functions that change the state of an object which they are given.
    functions: frozenset[str] = frozenset()


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
            "note_lost",
        }
    ),
    # A damaged message of a replica is replaced by that of another one.
    functions=frozenset({"repair_message"}),
)
IDS: Final = Holder(
    frozenset({"dedupe", "_dedupe"}),
    frozenset({"add", "add_all", "note_messages", "forget_before", "setting_window"}),
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
# The set of streams, its log, and the streams and folders that follow it.
STREAM_SET: Final = Holder(
    frozenset({"streams", "_streams", "_machine"}),
    frozenset({"apply", "applying", "show_plain", "open", "close", "run"}),
)
CATALOGUE: Final = Holder(
    frozenset({"_store", "store", "_commit", "catalogue_commit"}),
    frozenset({"add", "withdraw", "write", "make_stream", "remove_stream"}),
)


SCHEDULES: Final = Holder(
    frozenset({"scheduling", "_scheduling", "table"}),
    frozenset({"note", "note_all", "forget", "forget_purged", "skip_missed", "put", "move"})
    | frozenset({"remove_subject"}),
)
WATERMARK: Final = Holder(
    frozenset({"self", "stream", "_stream"}), frozenset(), frozenset({"visible_sequence"})
)
ASSIGNMENTS: Final = Holder(frozenset({"assignments", "_assignments"}), frozenset({"apply"}))
POSITIONS: Final = Holder(
    frozenset({"positions", "_positions"}), frozenset({"apply", "stored", "keep_only", "restore"})
)
# The configurations of streams and of consumers, and whether a stream tells where it begins.
CONFIG: Final = Holder(
    frozenset({"self", "stream", "_stream", "consumer", "machine"}),
    frozenset({"_configure", "reconfiguring"}),
    frozenset({"config", "tells_first_sequence"}),
)
CONSUMERS: Final = Holder(
    frozenset({"by_name", "self"}),
    frozenset({"clear", "pop", "popitem", "setdefault", "update", "_creating"}),
    has_items=True,
)
USAGE: Final = Holder(frozenset({"host", "_host", "account"}), frozenset({"update_usage"}))


# The functions that take a step which the turn of the server orders: the decisions about what has
# gathered, the work of groups, the commit of the store, and the replies that rest on its write.
TURN: Final = Holder(
    frozenset({"agreement", "_driver", "_store", "store", "turn", "_turn", "self"}),
    frozenset({"agree", "answer_written", "commit", "complete", "decide_gathered"}),
)

# The functions by which the effects of consumers leave the server.
EFFECTS: Final = Holder(
    frozenset({"broker", "_broker", "advisories", "_advisories", "elections"}),
    frozenset({"send_messages", "consumer_event", "consumer_action", "consumer_paused"})
    | frozenset({"consumer_led"}),
)

# The objects with durable state.
STATES: Final = (
    LOG,
    IDS,
    CONSUMER_STATE,
    ENTRIES,
    STREAM_SET,
    CATALOGUE,
    SCHEDULES,
    WATERMARK,
    ASSIGNMENTS,
    POSITIONS,
    CONFIG,
    CONSUMERS,
    USAGE,
)


class Caller(NamedTuple):
    module: str
    function: str


def callers(source: str, module: str, holder: Holder) -> set[Caller]:
    """The functions of a module that call a method of a holder."""
    return callers_of(source, module, [holder])[holder]


def callers_of(source: str, module: str, holders: Sequence[Holder]) -> dict[Holder, set[Caller]]:
    """The functions of a module that call a method of each holder."""
    found: dict[Holder, set[Caller]] = {holder: set() for holder in holders}
    for function, node in _functions(ast.parse(source)):
        nodes = [each for each in ast.walk(node) if isinstance(each, _TELLING)]
        for holder in holders:
            names = holder.names | _aliases(nodes, holder.names)
            if any(_changes(each, holder, names) for each in nodes):
                found[holder].add(Caller(module, function))
    return found


# The nodes that may show a change or another name.
_TELLING: Final = (ast.Attribute, ast.Name, ast.Subscript, ast.Assign)


def _functions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The outermost functions, with the name of their class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for name, function in _functions(node):
                yield f"{node.name}.{name}", function


def _aliases(nodes: Sequence[ast.AST], names: frozenset[str]) -> set[str]:
    """Other names that a function gives to a holder."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and _name_of(node.value) in names:
            found |= {_name_of(target) for target in node.targets}
    return found - {""}


def _changes(node: ast.AST, holder: Holder, names: frozenset[str]) -> bool:
    """Whether a node names a method of a holder, to call it now or later, or sets an attribute or
    an item."""
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Load) and node.id in holder.functions
    if isinstance(node, ast.Subscript):
        is_changed = not isinstance(node.ctx, ast.Load)
        return holder.has_items and is_changed and _name_of(node.value) in names
    if not isinstance(node, ast.Attribute) or _name_of(node.value) not in names:
        return False
    if isinstance(node.ctx, ast.Load):
        return node.attr in holder.methods
    return node.attr in holder.attributes


def _name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@cache
def all_callers() -> dict[Holder, set[Caller]]:
    """The callers of each holder in all modules."""
    found: dict[Holder, set[Caller]] = {holder: set() for holder in (*STATES, TURN, EFFECTS)}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = path.relative_to(ROOT).as_posix()
            for holder, more in callers_of(path.read_text(), module, [*found]).items():
                found[holder] |= more
    return found


# Functions below `Stream.apply` and `StreamSet.apply`, and those that carry out their effects.
APPLY: Final = {
    LOG: {
        "jetstream/streams/stream.py": (
            "Stream._changing Stream._purging_as_asked Stream._store Stream._store_messages"
            " Stream._write_config"
        ),
        "jetstream/streams/removal.py": (
            "Removals._deleting_many Removals.purging Removals.removing"
        ),
        # The journal gets the records of consumers that were applied.
        "jetstream/consumers/collection.py": "Consumers.flush Consumers.queue_unwritten",
        # It also gets the removals that records have caused, before a client is answered.
        "server/streams/consumer_runner.py": "ConsumerRunner.write_removals",
        "server/streams/follower.py": "StreamFollower.release",
        # A replica that is filled again gets the configuration of the one before.
        "server/streams/storage/stream_store.py": "StreamStore.begin_refill",
    },
    IDS: {
        "jetstream/streams/stream.py": "Stream._reconfiguring Stream._store Stream._store_messages",
    },
    CONSUMER_STATE: {
        "jetstream/consumers/state_machine.py": "StateMachine._forget_before StateMachine.apply",
    },
    ENTRIES: {},
    STREAM_SET: {
        "jetstream/group.py": "Group._apply_some Group._applying_all Group.propose_step",
        "server/streams/stream_set_runner.py": (
            "StreamSetRunner._carry_out StreamSetRunner.release"
        ),
    },
    CATALOGUE: {
        "server/streams/storage/stream_store.py": "StreamStore._make_log StreamStore.remove_log",
    },
    SCHEDULES: {
        "jetstream/streams/removal.py": "Removals.purging Removals.removing",
        "jetstream/streams/schedules/scheduling.py": "Scheduling._note_next Scheduling.note",
        "jetstream/streams/stream.py": "Stream._note_schedules",
    },
    WATERMARK: {
        "jetstream/streams/stream.py": (
            "Stream._show_assigned Stream._show_some Stream._showing Stream.show_plain"
            " Stream.show_unqueued"
        ),
    },
    ASSIGNMENTS: {"server/cluster/assignment/meta_machine.py": "MetaMachine._apply"},
    POSITIONS: {
        "jetstream/streams/stream.py": (
            "Stream._applying Stream._reconfiguring Stream._store Stream._store_messages"
            " Stream.show_plain"
        ),
    },
    CONFIG: {
        "jetstream/streams/stream.py": (
            "Stream._configure Stream._purging_as_asked Stream._reconfiguring"
        ),
        "jetstream/consumers/machine.py": "Consumer._configure Consumer.applying",
        "jetstream/consumers/state_machine.py": "StateMachine.reconfiguring",
    },
    CONSUMERS: {
        "jetstream/consumers/collection.py": (
            "Consumers._creating Consumers._forget Consumers.applying"
        ),
    },
    USAGE: {
        "jetstream/streams/stream.py": (
            "Stream._remove_consumed Stream.applying Stream.show_plain Stream.show_unqueued"
        ),
    },
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
        # A log that is filled from the snapshot of another replica.
        "jetstream/snapshots/writer.py": (
            "SnapshotWriter._append SnapshotWriter._remove SnapshotWriter.finishing"
        ),
        # Half a batch that a crash has left in the files of a stream without entries, and messages
        # that acknowledgements and limits removed before the crash.
        "jetstream/streams/recovery.py": "remove_unfinished_batch",
        "jetstream/streams/stream.py": "Stream.recover",
        # A message that cannot be read here is replaced by its copy on another server: the state
        # of the stream is the one that it was.
        "server/cluster/assignment/repairs.py": "MessageRepairs._store",
    },
    IDS: {
        "jetstream/streams/recovery.py": "find_ids",
        "jetstream/snapshots/writer.py": "SnapshotWriter._adding_ids",
        # Ids whose window is over count for nothing, and only take memory.
        "jetstream/streams/schedules/due.py": "DueWork.decide",
    },
    CONSUMER_STATE: {
        "jetstream/backup/consumers.py": "backed_up",
        "jetstream/consumers/codec.py": "restore_state",
        # Records that were applied ahead of the log are taken back.
        "jetstream/consumers/state_machine.py": "StateMachine._put_back StateMachine.recovered",
    },
    ENTRIES: {
        "jetstream/committers.py": "StreamEntries.add Synced.retreat",
        # The committer of the set adds its entries by this method.
        "server/streams/stream_set_runner.py": "StreamSetRunner.__init__",
    },
    SCHEDULES: {
        # A stream that is filled from a snapshot, or recovered, does not run yet.
        "jetstream/snapshots/writer.py": "SnapshotWriter.finishing",
        "jetstream/streams/recovery.py": "find_schedules",
        "jetstream/streams/schedules/scheduling.py": "Scheduling.skip_missed",
        "jetstream/streams/stream.py": "Stream.recover",
    },
    WATERMARK: {
        "jetstream/streams/stream.py": "Stream.recover",
        "jetstream/streams/view.py": "StreamView.__init__",
    },
    POSITIONS: {
        # A stream that is filled from a snapshot does not run yet.
        "jetstream/snapshots/writer.py": "SnapshotWriter.finishing",
    },
    CONFIG: {
        # Objects that are made: streams, consumers, records, and the rules of one configuration.
        "jetstream/consumers/machine.py": "Consumer.__init__",
        "jetstream/consumers/records.py": "ConsumerConfigured.__init__ ConsumerCreated.__init__",
        "jetstream/consumers/state_machine.py": "StateMachine.__init__",
        "jetstream/records.py": "Configured.__init__ StreamCreated.__init__",
        "jetstream/streams/publishing/rules.py": "PublishRules.__init__",
        "jetstream/streams/stream.py": "Stream.__init__",
        "jetstream/streams/view.py": "StreamView.__init__",
        # A stream that is filled from a snapshot does not run yet.
        "jetstream/snapshots/writer.py": "SnapshotWriter.finishing",
        # These follow a configuration by a method of the same name.
        "server/cluster/assignment/assigned_streams.py": (
            "AssignedStreams._follow_servers AssignedStreams._role_told"
        ),
    },
    CONSUMERS: {
        # A stream that is recovered or filled from a snapshot, and one that has ended.
        "jetstream/consumers/collection.py": (
            "Consumers._recover_entry Consumers.break_cycles Consumers.restoring"
        ),
        # The counts of a stream that has ended.
        "jetstream/consumers/retention.py": "InterestCounts.abandon",
    },
    STREAM_SET: {
        # The records of the catalogue are committed, and their streams are opened all together.
        "server/streams/storage/stream_set_log.py": "StreamSetLog.recover",
        "server/streams/host.py": "StreamHost.start",
    },
    CATALOGUE: {
        # The log behind the committer of the set.
        "server/streams/storage/stream_set_log.py": (
            "StreamSetLog.add_entry StreamSetLog.withdraw_entries"
        ),
        # A log that a restore has not filled to its end is no stream.
        "server/streams/storage/recovery.py": "recover_stream",
    },
}


def listed(holder: Holder) -> set[Caller]:
    return {
        Caller(module, function)
        for table in (APPLY, OTHERS)
        for module, functions in table.get(holder, {}).items()
        for function in functions.split()
    }


@pytest.mark.parametrize("holder", STATES, ids=lambda each: max(each.methods | each.attributes))
def test_durable_state_is_changed_where_the_lists_say(holder: Holder) -> None:
    assert all_callers()[holder] == listed(holder)


# Files, and the folders that they are in, as the store knows them.
FILES: Final = Holder(
    frozenset({"file", "_file", "files", "_files"}),
    frozenset({"write", "overwrite", "truncate"})
    | frozenset({"create", "rename", "remove", "make_folder", "remove_folder"}),
)
# The modules of the store that write files, by the reason. Everything else reads.
WRITE_FILES: Final = {
    "layouts, below the writers": (
        "disk/encoding disk/filesystem disk/journal disk/segment disk/unfinished"
    ),
    "the log and its journal, which committers and `apply` write by way of `FileLog`": (
        "log/log_journal log/segments stream_folders store"
    ),
    "upkeep: checkpoints, compaction, journals, files that are not needed, room on the disk": (
        "disk/earlier_files disk/room log/checkpoints log/journal_rewrites"
        " upkeep/checkpoint_writing upkeep/compaction upkeep/journal_rewriting"
    ),
    "opening: damage is set aside or cut off, entries are put back": (
        "disk/set_aside disk/wal_reading groups/opening recovery/opening recovery/redo"
        " recovery/replay recovery/replicas"
    ),
}


def writes_files(source: str) -> bool:
    """Whether a module of the store changes a file or a folder."""
    return bool(callers(source, "", FILES))


def test_the_files_of_a_store_are_written_where_the_list_says() -> None:
    store = ROOT / "store"
    found = {
        path.relative_to(store).with_suffix("").as_posix()
        for path in store.rglob("*.py")
        if writes_files(path.read_text())
    }
    assert found == {name for names in WRITE_FILES.values() for name in names.split()}


def test_a_write_to_a_file_is_found() -> None:
    assert writes_files("class Index:\n def find(self): self._file.truncate(0)")
    assert writes_files("def look(files): gone = files.remove")
    assert not writes_files("def look(file): return file.read(0, 9)")


# The modules outside of the store that decide anything by the sync mode of a stream: the one that
# reads it from the configuration, and the one that chooses the class of the committer.
KNOW_THE_SYNC_MODE: Final = {
    "server/streams/storage/stream_store.py",
    "server/streams/runners.py",
}


def decides_by_sync_mode(source: str) -> bool:
    """Whether a module names a sync mode."""
    return any(map(_is_sync_mode, ast.walk(ast.parse(source))))


def _is_sync_mode(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and _name_of(node.value) == "SyncMode"


def test_nothing_beside_the_store_and_the_committers_decides_by_the_sync_mode() -> None:
    modules = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}
    found = {name for name, path in modules.items() if decides_by_sync_mode(path.read_text())}
    assert {name for name in found if not name.startswith("store/")} == KNOW_THE_SYNC_MODE


def functions_that_decide_by_sync_mode(source: str) -> list[str]:
    """The functions whose statements name a sync mode, or compare one that they are given."""
    found = []
    for name, function in _functions(ast.parse(source)):
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        nodes = [each for line in function.body for each in ast.walk(line)]
        arguments = [*function.args.args, *function.args.kwonlyargs]
        modes = {
            each.arg
            for each in arguments
            if each.annotation is not None and ast.unparse(each.annotation).startswith("SyncMode")
        }
        compared = [
            side
            for node in nodes
            if isinstance(node, ast.Compare)
            for side in (node.left, *node.comparators)
        ]
        is_named = any(_is_sync_mode(each) for each in nodes)
        if is_named or any(_name_of(side) in modes for side in compared):
            found.append(name)
    return found


def test_a_store_decides_by_the_sync_mode_in_one_table() -> None:
    modules = [*(ROOT / "store").rglob("*.py")]
    found = {path.name: functions_that_decide_by_sync_mode(path.read_text()) for path in modules}
    assert not any(found.values()), found
    tables = [path.name for path in modules if decides_by_sync_mode(path.read_text())]
    assert tables == ["store.py"]


def test_a_decision_by_the_sync_mode_is_found() -> None:
    assert decides_by_sync_mode("if mode is SyncMode.ALWAYS: sync()")
    assert not decides_by_sync_mode("def run(mode: SyncMode) -> None: ...")
    branch = "def f(self, mode):\n    if mode is SyncMode.ALWAYS:\n        pass"
    chosen = "def f(self, mode):\n    return {SyncMode.ASYNC: 1}[mode]"
    compared = "def f(self, mode: SyncMode, other):\n    return mode is other"
    for source in (branch, chosen, compared):
        assert functions_that_decide_by_sync_mode(source) == ["f"]
    default = "def f(mode: SyncMode = SyncMode.INTERVAL):\n    return POLICIES[mode]"
    assert functions_that_decide_by_sync_mode(default) == []


# The functions that take these steps, or have them taken.
STEPS: Final = {
    "server/turn.py": "Turn._agree Turn._write Turn.complete Turn.plan",
    # A request sees the messages that its client has published before it, and the messages behind
    # it see the request, also when all of them came in one read: it is answered in its place, and
    # its answer tells the broker whether anybody listens there.
    "server/streams/api_service.py": ("ApiService._purge_account ApiService.answer_here"),
    "server/streams/direct_reads.py": "DirectReads.answer_lasts",
    # A turn is completed early: for a client whose frames are to be written before it goes, for
    # links that are about to end, and for consumers that end with the server.
    "server/connections/connections.py": "Connections.write_answers",
    "server/node.py": "Node.close_all",
    "server/streams/host.py": "StreamHost.end_consumers",
    # `_commit` is the step of the turn. After the last turn the store is committed once more.
    "server/streams/runners.py": "StreamRunners._commit StreamRunners.stop",
    # This one completes something else, by a method of the same name.
    "server/cluster/consensus/catch_up.py": "CatchUp.received",
    # Groups resign when the server ends.
    "server/cluster/consensus/driver.py": "ConsensusDriver.stop",
}


def test_a_turn_is_ordered_in_one_place() -> None:
    found = all_callers()[TURN]
    assert {caller for caller in found if caller.module.startswith("server/")} == {
        Caller(module, function)
        for module, functions in STEPS.items()
        for function in functions.split()
    }


def test_effects_of_consumers_leave_in_one_place() -> None:
    found = all_callers()[EFFECTS]
    assert {caller.module for caller in found} == {"server/streams/effects.py"}


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

def create(host, files):
    files.store.make_stream("S")
    host.streams.run("S")
"""
    assert callers(source, "m.py", LOG) == {Caller("m.py", "Stream.decide")}
    assert callers(source, "m.py", STREAM_SET) == {Caller("m.py", "create")}
    assert callers(source, "m.py", CATALOGUE) == {Caller("m.py", "create")}
    assert callers(source, "m.py", IDS) == {Caller("m.py", "purge")}


PLANTED: Final = {
    "an alias of the object": (LOG, "def f(stream):\n    kept = stream.log\n    kept.append(1)"),
    "an alias of the method": (LOG, "def f(stream):\n    add = stream.log.append\n    add(1)"),
    "a method that is handed on": (IDS, "def f(stream):\n    later(stream.dedupe.add)"),
    "an async function": (LOG, "async def f(stream):\n    stream.log.skip(1, 0)"),
    "a schedule": (SCHEDULES, "def f(stream):\n    stream.scheduling.forget([1])"),
    "the table of schedules": (SCHEDULES, "def f(stream):\n    stream.scheduling.table.put(1)"),
    "the watermark": (WATERMARK, "def f(stream):\n    stream.visible_sequence = 1"),
    "the position of a source": (POSITIONS, "def f(stream):\n    stream.positions.apply(1)"),
    "the configuration of a stream": (CONFIG, "def f(stream):\n    stream.config = 1"),
    "the beginning of a stream": (CONFIG, "def f(stream):\n    stream.tells_first_sequence = 1"),
    "a consumer": (CONSUMERS, "def f(stream):\n    stream.consumers.by_name['C'] = 1"),
    "a consumer that goes": (CONSUMERS, "def f(self):\n    del self.by_name['C']"),
    "lost messages": (LOG, "def f(stream):\n    stream.log.note_lost([])"),
    "a message that is repaired": (LOG, "def f(log):\n    repair_message(log, 1, b'')"),
    "a batch that is decided early": (TURN, "def f(broker):\n    broker.turn.decide_gathered()"),
    "a delivery beside the effects": (EFFECTS, "def f(self):\n    self._broker.send_messages(1)"),
    "the usage of an account": (USAGE, "def f(stream):\n    stream.host.update_usage(1)"),
    "an assignment": (ASSIGNMENTS, "def f(machine):\n    machine.assignments.apply(1)"),
}


@pytest.mark.parametrize(("holder", "source"), PLANTED.values(), ids=PLANTED)
def test_every_form_of_a_change_is_found(holder: Holder, source: str) -> None:
    assert callers(source, "m.py", holder) == {Caller("m.py", "f")}
