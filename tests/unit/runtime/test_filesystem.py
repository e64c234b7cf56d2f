"""Behaviour that only a real operating system can show. The rules of the port itself are tested
for the real and the simulated disk together, in tests/unit/testing/test_disk_port.py.
"""

import errno
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.runtime.filesystem import SystemFileSystem, boot_id
from headwater.store.disk.store_file import BOOT_UNKNOWN

FILES = SystemFileSystem()


def test_a_write_cut_short_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite

    def three_bytes(descriptor: int, data: bytes | memoryview, offset: int) -> int:
        return whole(descriptor, bytes(data)[:3], offset)

    monkeypatch.setattr(os, "pwrite", three_bytes)
    file = FILES.create(str(tmp_path / "f"))
    file.write(b"0123456789")
    file.write(b"abcd")
    assert file.size == 14
    file.overwrite(5, b"ABCDEFG")
    assert file.size == 14
    file.close()
    assert (tmp_path / "f").read_bytes() == b"01234ABCDEFGcd"


def test_a_read_cut_short_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    whole = os.pread
    monkeypatch.setattr(
        os, "pread", lambda descriptor, size, offset: whole(descriptor, min(3, size), offset)
    )
    file = FILES.open(str(tmp_path / "f"))
    assert file.read(0, 10) == b"0123456789"
    assert file.read(2, 7) == b"2345678"
    assert file.read(8, 7) == b"89"
    file.close()


def test_a_file_cut_by_others_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    file = FILES.open(str(tmp_path / "f"))
    os.truncate(tmp_path / "f", 4)
    assert file.read(0, 10) == b"0123"
    file.close()


def test_a_read_beyond_the_end_during_a_write_leaves_the_end_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FILES.create(str(tmp_path / "f"))
    whole = os.pwrite

    def read_meanwhile(descriptor: int, data: bytes | memoryview, offset: int) -> int:
        written = whole(descriptor, data, offset)
        assert file.read(0, 100).endswith(bytes(data))
        return written

    monkeypatch.setattr(os, "pwrite", read_meanwhile)
    file.write(b"one,")
    file.write(b"two,")
    file.close()
    assert (tmp_path / "f").read_bytes() == b"one,two,"


def test_a_write_that_fails_half_way_tells_how_far_it_came(tmp_path: Path) -> None:
    file = FILES.create(str(tmp_path / "f"))
    file.write(b"before ")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.write(b"0123456789")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.size == 10
    assert file.read(0, 100) == b"before 012"
    file.truncate(7)
    file.write(b"after")
    file.close()
    assert (tmp_path / "f").read_bytes() == b"before after"


def test_others_may_not_read(tmp_path: Path) -> None:
    FILES.make_folder(str(tmp_path / "a/b"))
    FILES.create(str(tmp_path / "a/b/f")).close()
    for path, mode in (("a", 0o750), ("a/b", 0o750), ("a/b/f", 0o640)):
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) & ~mode == 0


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    FILES.make_folder("a/b")
    FILES.create("a/f").close()
    FILES.sync_folder("a")
    assert FILES.list_folder("a") == ["b", "f"]
    assert FILES.free_bytes("absent") > 0
    with pytest.raises(FileNotFoundError):
        FILES.make_folder("")


def test_a_name_that_can_not_be_looked_up_is_not_taken_for_absent(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        FILES.exists(str(tmp_path / "loop"))
    with pytest.raises(OSError, match="symbolic links"):
        FILES.is_folder(str(tmp_path / "loop"))


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    def open_descriptors() -> int:
        return sum(os.path.exists(f"/dev/fd/{number}") for number in range(256))

    path = str(tmp_path / "lock")
    before = open_descriptors()
    lock = FILES.lock(path)
    for _ in range(3):
        with pytest.raises(BlockingIOError):
            FILES.lock(path)
    lock.release()
    FILES.create(str(tmp_path / "f")).close()
    FILES.sync_folder(str(tmp_path))
    assert open_descriptors() == before


def test_programs_that_are_started_inherit_nothing(tmp_path: Path) -> None:
    file = FILES.create(str(tmp_path / "f"))
    lock = FILES.lock(str(tmp_path / "lock"))
    script = """
import os, sys
for number in range(3, 256):
    try: found = os.fstat(number)
    except OSError: continue
    assert not any(os.path.samestat(found, os.stat(path)) for path in sys.argv[1:]), number
"""
    names = [str(tmp_path / "f"), str(tmp_path / "lock")]
    subprocess.run([sys.executable, "-c", script, *names], check=True, close_fds=False)
    file.close()
    lock.release()


# --- locks between processes --------------------------------------------------------------------

HOLD = """
import sys
from headwater.runtime.filesystem import SystemFileSystem
lock = SystemFileSystem().lock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_of_another_process_is_named_and_ends_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError, match=f"held by process {holder.pid}: '{path}'"):
            FILES.lock(path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    lock = FILES.lock(path)
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()


# Forks in a process of its own: ours may have threads, which do not survive a fork.
FORK = """
import os, sys
from headwater.runtime.filesystem import SystemFileSystem
files = SystemFileSystem()

def in_a_child(action):
    pid = os.fork()
    if pid == 0:
        action()
        os._exit(0)
    return pid

def is_held():
    try:
        files.lock(sys.argv[1]).release()
    except BlockingIOError:
        return True
    return False

lock = files.lock(sys.argv[1])
os.waitpid(in_a_child(lock.release), 0)
assert is_held(), "the child has released the lock of its parent"

wait, end = os.pipe()
ready, say_ready = os.pipe()
child = in_a_child(lambda: (os.close(end), os.write(say_ready, b"."), os.read(wait, 1)))
os.read(ready, 1)
lock.release()
assert not is_held(), "the child holds the lock that its parent has released"
os.close(end)
os.waitpid(child, 0)
"""


def test_a_forked_child_has_no_part_in_the_lock(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(tmp_path / "lock")], check=True)


def test_the_name_of_an_unknown_holder_is_not_invented(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FILES.lock(str(path))
    path.write_text("not a number")
    with pytest.raises(BlockingIOError, match="held by another process"):
        FILES.lock(str(path))
    lock.release()


def test_a_lock_file_removed_meanwhile_is_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "lock")
    real_open, opened = os.open, []

    def open_and_lose(name: str, flags: int, mode: int = 0o777) -> int:
        descriptor = real_open(name, flags, mode)
        if name != path:
            return descriptor
        opened.append(name)
        if len(opened) == 1:
            os.unlink(name)
        if len(opened) == 2:
            os.replace(tmp_path / "other", name)
        return descriptor

    (tmp_path / "other").write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_and_lose)
        lock = FILES.lock(path)
    assert opened == [path] * 3
    with pytest.raises(BlockingIOError):
        FILES.lock(path)
    lock.release()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_is_held_whatever_becomes_of_its_lock_file(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "lock"
    lock = FILES.lock(str(path))
    assert lock.is_in_place
    path.unlink()
    if replaced:
        path.write_text("1\n")
    assert not lock.is_in_place
    with pytest.raises(BlockingIOError, match="held by"):
        FILES.lock(str(path))
    assert path.exists() is replaced, "who does not get the folder leaves nothing in it"
    lock.put_back()
    assert lock.is_in_place
    assert path.read_text() == f"{os.getpid()}\n"
    with pytest.raises(BlockingIOError, match=f"held by process {os.getpid()}"):
        FILES.lock(str(path))
    lock.release()
    FILES.lock(str(path)).release()


def test_where_folders_can_not_be_locked_the_lock_file_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_flock = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "as NFS says")
        real_flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock = FILES.lock(str(tmp_path / "lock"))
    with pytest.raises(BlockingIOError):
        FILES.lock(str(tmp_path / "lock"))
    lock.release()


# --- the identity of a boot ---------------------------------------------------------------------


def test_the_boot_id_stays_the_same(tmp_path: Path) -> None:
    assert boot_id() == boot_id()
    (tmp_path / "boot_id").write_text("c0ffee\n")
    assert boot_id(str(tmp_path / "boot_id")) == "c0ffee"


def test_without_a_file_the_system_is_asked(tmp_path: Path) -> None:
    sysctl = tmp_path / "sysctl"
    sysctl.write_text('#!/bin/sh\n[ "$*" = "-n kern.boottime" ] && echo "{ sec = 12 }"\n')
    sysctl.chmod(0o700)
    assert boot_id(str(tmp_path / "absent"), str(sysctl)) == "{ sec = 12 }"


def test_a_boot_that_nobody_knows_of_is_unknown(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    assert boot_id(absent, absent) == BOOT_UNKNOWN


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    file = FILES.create(path)
    with pytest.raises(OSError, match="Invalid argument") as caught:
        file.truncate(1)
    assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, path)
    assert path in repr(file)
    file.close()
