"""Groups give up entries in old write-ahead files, and keep those that others need."""

import pytest

from headwater.server.cluster.consensus import compaction
from headwater.store.disk.wal import number_of
from headwater.store.groups import group_logs
from tests.kit.consensus_servers import ConsensusServers

FILE_BYTES = 20_000
ENTRY = b"e" * 1_000


@pytest.fixture(autouse=True)
def _entries_are_not_carried_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are small here, so that no group's entries are too few to hold one."""
    monkeypatch.setattr(group_logs, "CARRIED_BYTES_MAX", 0)


def born() -> ConsensusServers:
    servers = ConsensusServers("abc", ahead_bytes_max=FILE_BYTES)
    servers.start()
    servers.run(5)
    return servers


def propose(servers: ConsensusServers, count: int) -> None:
    """Commit entries, one after the other."""
    leader = servers[servers.leader].driver
    assert leader.birth is not None
    for _ in range(count):
        leader.groups.propose(leader.birth.identity, [ENTRY], servers.clock.monotonic_ns())
        leader.committed()
        servers.run(0.05)


def files_of(servers: ConsensusServers, name: str) -> list[int]:
    names = servers[name].disk.list_folder("/data")
    return sorted(number for number in map(number_of, names) if number)


def log_entries(servers: ConsensusServers, name: str) -> int:
    store = servers[name].store
    [identity] = store.groups.identities()
    return store.groups[identity].last_index - store.groups[identity].snapshot.index


def test_a_group_does_not_hold_old_files() -> None:
    servers = born()
    propose(servers, 300)
    for name in "abc":
        files = files_of(servers, name)
        assert files[-1] > 10
        assert len(files) <= 3
        assert log_entries(servers, name) <= 3 * FILE_BYTES // len(ENTRY)
        assert servers[name].meta.log.applied == servers["a"].meta.log.applied


def test_a_server_that_starts_again_has_the_entries_that_were_kept() -> None:
    servers = born()
    propose(servers, 100)
    last = servers["a"].meta.log.commit
    for name in "abc":
        servers[name].kill()
        servers[name].disk.power_loss()
    servers.start()
    servers.run(5)
    assert servers.leader in "abc"
    assert servers["a"].meta.log.commit > last


def test_a_server_that_was_away_gets_a_snapshot() -> None:
    servers = born()
    away = next(name for name in "abc" if name != servers.leader)
    servers[away].kill()
    servers.run(3)
    propose(servers, 100)
    servers.start(away)
    servers.run(5)
    assert servers[away].meta.log.commit == servers[servers.leader].meta.log.commit


@pytest.mark.parametrize("files_max", [4, 1_000])
def test_entries_are_kept_for_a_live_server_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, files_max: int
) -> None:
    monkeypatch.setattr(compaction, "FILES_FOR_PEERS_MAX", files_max)
    servers = born()
    leader = servers.leader
    slow = next(name for name in "abc" if name != leader)
    servers[slow].is_stalled = True
    propose(servers, 200)
    assert servers.leader == leader
    kept = len(files_of(servers, leader))
    assert kept <= 7 if files_max == 4 else kept > 8


@pytest.mark.parametrize("bytes_max", [0, 1 << 20])
def test_a_long_log_is_kept_for_a_live_server_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    monkeypatch.setattr(compaction, "LOG_ENTRIES_MAX", 20)
    monkeypatch.setattr(compaction, "BYTES_FOR_PEERS_MAX", bytes_max)
    servers = ConsensusServers("abc")
    servers.start()
    servers.run(5)
    leader = servers.leader
    slow = next(name for name in "abc" if name != leader)
    servers[slow].is_stalled = True
    propose(servers, 100)
    assert servers.leader == leader
    if bytes_max:
        assert log_entries(servers, leader) >= 100
        servers[slow].is_stalled = False
        servers[slow].commit()
        servers.run(5)
        propose(servers, 30)
        assert servers[slow].meta.log.commit == servers[leader].meta.log.commit
    assert log_entries(servers, leader) <= 30
