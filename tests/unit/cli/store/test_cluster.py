"""`headwater store cluster`: the part of a stopped server in its cluster, and orders to it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.cli.commands import run
from headwater.raft.membership import encode, membership_of
from headwater.runtime.entropy import SystemEntropy
from headwater.runtime.filesystem import SystemFileSystem, boot_id
from headwater.server.cluster.consensus.birth import Ballot, Birth, BirthRecord
from headwater.server.cluster.consensus.cluster_file import ClusterFile, Order
from headwater.server.cluster.consensus.peers import ServerFacts
from headwater.store.disk.cipher import Cipher, ServerKey, StretchingCost
from headwater.store.disk.encoding import Encoding
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.store import Store, open_store

META = b"m" * 16
Command = Callable[..., tuple[int, str, str]]


def opened(folder: Path, key: str = "") -> Store:
    cost = StretchingCost(10, 8, 1)
    encoding = Encoding()
    if key:
        encoding = Encoding(server_key=ServerKey(key, None, Cipher.CHACHA20_POLY1305, cost))
    files = SystemFileSystem()
    return open_store(files, str(folder), SystemEntropy(), boot_id(), encoding=encoding)


def member(folder: Path, last_index: int = 7, key: str = "") -> None:
    """The store of server one of a cluster of three, which knows four entries to be confirmed."""
    store = opened(folder, key)
    store.mark_in_use()
    mark = SnapshotMark(1, 1, encode(membership_of(["one", "two", "three"])))
    if last_index == 0:
        mark = SnapshotMark()
    log, _ = store.groups.create(META, GroupMode.SYNCED, mark, GroupState())
    data = [GroupEntry(index, 2, 1, 0, 0, b"data") for index in range(2, last_index + 1)]
    log.save(state=GroupState(3, "two", min(4, last_index)), entries=data)
    store.group_commit.secure_frames()
    file = ClusterFile(SystemFileSystem(), str(folder))
    file.peers.remember("two", ServerFacts(b"2" * 16, 5, b"x" * 8))
    birth = Birth(META, (("one", store.identity), ("three", b"3" * 16), ("two", b"2" * 16)))
    file.save(BirthRecord(Ballot(1, "one"), Ballot(1, "one"), birth, is_chosen=True))
    store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    member(tmp_path / "jetstream")
    return tmp_path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `headwater store cluster …`. Returns the exit code and the outputs."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = run(["store", "cluster", *map(str, arguments)])
        return (code, *capsys.readouterr())

    return call


def order_in(folder: Path) -> Order:
    return ClusterFile(SystemFileSystem(), f"{folder}/jetstream").order


def test_a_member_is_shown(folder: Path, command: Command) -> None:
    code, out, _ = command("show", folder)
    assert code == 0
    for line in (
        f"cluster     {META.hex()}",
        "reset       never",
        "voters      one, three, two",
        "term        3, vote: two",
        "entries     up to 7 (of term 2), known to be confirmed up to 4",
        "memory      sound",
        f"server two  store {(b'2' * 16).hex()}, start 5",
    ):
        assert line in out.splitlines()


def test_a_program_reads_the_same_as_json(folder: Path, command: Command) -> None:
    code, out, _ = command("show", folder, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["meta"] == {
        "term": 3,
        "vote": "two",
        "commit": 4,
        "last_index": 7,
        "last_term": 2,
        "voters": ["one", "three", "two"],
        "learners": [],
        "may_have_forgotten": False,
    }
    assert (told["cluster"], told["reset"], told["order"]) == (META.hex(), None, None)
    assert [each["name"] for each in told["servers"]] == ["two"]


def test_a_server_in_no_cluster_is_shown_as_such(tmp_path: Path, command: Command) -> None:
    opened(tmp_path).close()
    code, out, _ = command("show", tmp_path)
    assert code == 0
    assert "cluster  none" in out.splitlines()


def test_a_reset_names_what_is_given_up(folder: Path, command: Command) -> None:
    code, out, err = command("reset", folder, "--force")
    assert code == 0
    assert "Given up for good: servers three, two." in err
    assert "entries behind 7" in err
    assert "entries up to 4 were confirmed" in err
    assert "Entries 5 to 7 of the meta group count from now on" in err
    assert "only member of its cluster from its next start on" in out
    assert order_in(folder) is Order.RESET
    assert "order       reset, when the server starts" in command("show", folder)[1].splitlines()


def test_a_server_that_leaves_names_what_is_given_up(folder: Path, command: Command) -> None:
    code, _, err = command("leave", folder, "--force")
    assert code == 0
    assert "in a cluster with three, two, and its logs of 1 groups" in err
    assert order_in(folder) is Order.LEAVE


@pytest.mark.parametrize("name", ["reset", "leave"])
def test_without_a_terminal_nothing_is_ordered(folder: Path, command: Command, name: str) -> None:
    code, _, err = command(name, folder)
    assert code == 2
    assert "--force" in err
    assert order_in(folder) is Order.NONE


@pytest.mark.parametrize("name", ["reset", "leave"])
def test_a_running_server_is_given_no_order(folder: Path, command: Command, name: str) -> None:
    store = opened(folder / "jetstream")
    try:
        code, _, err = command(name, folder, "--force")
    finally:
        store.close()
    assert code == 3
    assert "is in use" in err
    assert order_in(folder) is Order.NONE


@pytest.mark.parametrize("name", ["reset", "leave"])
def test_a_server_in_no_cluster_has_nothing_to_give_up(
    tmp_path: Path, command: Command, name: str
) -> None:
    opened(tmp_path).close()
    code, _, err = command(name, tmp_path, "--force")
    assert code == 1
    assert "is in no cluster" in err


def test_a_server_that_was_told_nothing_is_not_the_one_to_go_on(
    tmp_path: Path, command: Command
) -> None:
    member(tmp_path / "jetstream", last_index=0)
    code, _, err = command("reset", tmp_path, "--force")
    assert code == 1
    assert "was told nothing of its cluster" in err
    assert order_in(tmp_path) is Order.NONE


def test_an_encrypted_store_needs_its_key(tmp_path: Path, command: Command) -> None:
    member(tmp_path / "jetstream", key="secret")
    code, _, err = command("show", tmp_path)
    assert code == 3
    assert "--key-file" in err
    (tmp_path / "key").write_text("secret\n")
    code, out, _ = command("show", tmp_path, "--key-file", tmp_path / "key")
    assert code == 0
    assert "voters      one, three, two" in out.splitlines()


def test_a_folder_without_a_store_is_refused(tmp_path: Path, command: Command) -> None:
    code, _, err = command("show", tmp_path)
    assert code == 3
    assert "holds no store" in err
