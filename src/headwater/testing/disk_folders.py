"""The names on a simulated disk: the entries for look-ups, and the possible states of the medium.

Every folder has its entries as processes see them, its entries as of its last sync, and the changes
in between. After a power loss the medium holds the synced entries and any of the changes (or, for a
file system that keeps order, any number of them from the first on). A change is atomic: a rename
inside a folder leaves the old name or the new one. Between two folders a rename is two changes, of
which the second never happens without the first: the file may then have both names, never none.

A folder is an entry of the folder above it. If that entry is lost, all below it is lost, synced or
not: POSIX allows that, and a program that creates folders has to expect it.

Must not know: the contents of the files.
"""

import errno
import os
import random
from collections.abc import Iterator
from typing import Final

from headwater.testing.disk_contents import Contents

# The chances that a power loss keeps no change of a folder, and all of them; otherwise each change
# has its own fate.
_NONE_BELOW: Final = 0.2
_ALL_BELOW: Final = 0.4


def refusal(code: int, path: str) -> OSError:
    """An error of the operating system."""
    return OSError(code, os.strerror(code), path)


def normal(path: str) -> str:
    """`path` from the root; ".." is a name like any other."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


class Inode:
    """A file without its name."""

    __slots__ = ("contents", "handles", "links", "path", "syncs", "writes", "written_bytes")

    def __init__(self, contents: Contents, path: str) -> None:
        self.contents = contents
        # The last name of the file, for messages and patterns.
        self.path = path
        self.links = 0
        self.handles = 0
        self.writes = 0
        self.syncs = 0
        self.written_bytes = 0

    def clone(self) -> "Inode":
        """The file on a cloned disk, where no process has opened it."""
        twin = Inode(self.contents.clone(), self.path)
        twin.links = self.links
        twin.writes = self.writes
        twin.syncs = self.syncs
        twin.written_bytes = self.written_bytes
        return twin


class Folder:
    """Names and the files or folders behind them."""

    __slots__ = ("changes", "entries", "synced")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}
        self.changes: list[Change] = []


Node = Inode | Folder


class Change:
    """A change of a folder that is not synced yet.

    `name` stands for `node`, or for nothing if it is None; with an `old_name`, no other name in
    the folder stands for `node` any longer. `after` is a change of another folder that this one
    depends on.
    """

    __slots__ = ("after", "folder", "is_synced", "name", "node", "old_name")

    def __init__(
        self,
        folder: Folder,
        name: str,
        node: Node | None,
        old_name: str | None = None,
        after: "Change | None" = None,
    ) -> None:
        self.folder = folder
        self.name = name
        self.node = node
        self.old_name = old_name
        self.after = after
        self.is_synced = False

    def apply(self, entries: dict[str, Node]) -> None:
        """Change `entries`, whether or not earlier changes were made to them."""
        if self.old_name is not None:
            # Without an earlier rename the file still has the name from before that one.
            known = [self.old_name] if entries.get(self.old_name) is self.node else entries
            for name in [name for name in known if entries[name] is self.node]:
                del entries[name]
        if self.node is None:
            entries.pop(self.name, None)
        else:
            entries[self.name] = self.node


class Tree:
    """All folders of a disk. Paths are normalized."""

    __slots__ = ("_root", "_unsynced")

    def __init__(self) -> None:
        self._root = Folder()
        # Folders with changes, in the order of their first one.
        self._unsynced: dict[Folder, None] = {}

    # --- look-ups -------------------------------------------------------------------------------

    def find(self, path: str) -> Node | None:
        """The file or folder of that name, if any. Raises below a name that is not a folder."""
        node: Node | None = self._root
        for part in path.split("/"):
            if part:
                if node is None:
                    return None
                if isinstance(node, Inode):
                    raise refusal(errno.ENOTDIR, path)
                node = node.entries.get(part)
        return node

    def file(self, path: str) -> Inode:
        """The file of that name."""
        node = self.find(path)
        if node is None:
            raise refusal(errno.ENOENT, path)
        if isinstance(node, Folder):
            raise refusal(errno.EISDIR, path)
        return node

    def folder(self, path: str) -> Folder:
        """The folder of that name."""
        node = self.find(path)
        if node is None:
            raise refusal(errno.ENOENT, path)
        if isinstance(node, Inode):
            raise refusal(errno.ENOTDIR, path)
        return node

    def above(self, path: str) -> tuple[Folder, str]:
        """The folder in which `path` has, or could have, an entry, and the entry's name."""
        place, _, name = path.rpartition("/")
        if not name:
            raise refusal(errno.EBUSY, path)
        return self.folder(place or "/"), name

    def files(self) -> Iterator[tuple[str, Inode]]:
        """Every name of every file, sorted within each folder."""
        return _files_below(self._root, "")

    # --- changes --------------------------------------------------------------------------------

    def put(self, path: str, node: Node) -> None:
        """Let the new name `path` stand for `node`."""
        folder, name = self.above(path)
        self._change(Change(folder, name, node))
        if isinstance(node, Inode):
            node.links += 1

    def drop(self, path: str) -> None:
        """Let `path` stand for nothing."""
        folder, name = self.above(path)
        node = folder.entries[name]
        self._change(Change(folder, name, None))
        if isinstance(node, Inode):
            node.links -= 1

    def move(self, source: str, target: str) -> Inode | None:
        """Rename `source` to `target`. Returns the file that had that name."""
        (old_folder, old_name), (folder, name) = self.above(source), self.above(target)
        node = self.file(source)
        replaced = folder.entries.get(name)
        if isinstance(replaced, Folder):
            raise refusal(errno.EISDIR, target)
        if replaced is node:
            return None
        if folder is old_folder:
            self._change(Change(folder, name, node, old_name))
        else:
            arrival = Change(folder, name, node)
            self._change(arrival)
            self._change(Change(old_folder, old_name, None, after=arrival))
        node.path = target
        if replaced is not None:
            replaced.links -= 1
        return replaced

    def _change(self, change: Change) -> None:
        change.apply(change.folder.entries)
        change.folder.changes.append(change)
        self._unsynced[change.folder] = None

    def sync(self, folder: Folder) -> None:
        """Put all changes of a folder on the medium, with those that they depend on."""
        if folder.changes:
            self._sync_until(folder.changes[-1])

    def _sync_until(self, last: Change) -> None:
        if last.is_synced:
            return
        folder = last.folder
        count = folder.changes.index(last) + 1
        due, folder.changes = folder.changes[:count], folder.changes[count:]
        for change in due:
            # It is older than this change, so it never waits for a later one in `due`.
            if change.after is not None:
                self._sync_until(change.after)
            change.apply(folder.synced)
            change.is_synced = True
        if not folder.changes:
            self._unsynced.pop(folder, None)

    # --- after a power loss ---------------------------------------------------------------------

    def keep_written(self) -> None:
        """Let all changes reach the medium."""
        for folder in list(self._unsynced):
            self.sync(folder)

    def keep_synced(self) -> None:
        """Let no change reach the medium."""
        self._settle(set())

    def keep_some(self, rng: random.Random, *, ordered: bool) -> str:
        """Let some random changes reach the medium. Returns a description of them."""
        kept: set[Change] = set()
        for folder in self._unsynced:
            kept.update(_survivors(folder.changes, rng, ordered=ordered))
        while widows := [each for each in kept if not _may_stand(each, kept)]:
            for widow in widows:
                changes = widow.folder.changes
                kept.difference_update(changes[changes.index(widow) :] if ordered else [widow])
        total = sum(len(folder.changes) for folder in self._unsynced)
        self._settle(kept)
        return f"{len(kept)} of {total} changes of folders"

    def _settle(self, kept: set[Change]) -> None:
        for folder in self._unsynced:
            for change in folder.changes:
                if change in kept:
                    change.apply(folder.synced)
            folder.changes.clear()
            folder.entries = dict(folder.synced)
        self._unsynced.clear()

    def count_links(self) -> list[Inode]:
        """Recompute path and links of every file from the existing names. Returns the files."""
        found: dict[Inode, None] = {}
        for path, inode in self.files():
            if inode not in found:
                found[inode] = None
                inode.path = path
                inode.links = 0
            inode.links += 1
        return list(found)

    # --- copies ---------------------------------------------------------------------------------

    def clone(self) -> "Tree":
        """A copy of all names, synced and not, with copies of the files."""
        copies: dict[Node, Node] = {}
        twin = Tree()
        twin._root = _copied_folder(self._root, copies)
        changes: dict[Change, Change] = {}
        for folder in self._unsynced:
            for change in folder.changes:
                changes[change] = Change(
                    _copied_folder(folder, copies),
                    change.name,
                    None if change.node is None else _copied(change.node, copies),
                    change.old_name,
                )
        for change, copy in changes.items():
            # The change that this one depends on is still pending, or synced and irrelevant.
            copy.after = changes.get(change.after) if change.after is not None else None
            copy.folder.changes.append(copy)
            twin._unsynced[copy.folder] = None
        return twin


def _files_below(folder: Folder, path: str) -> Iterator[tuple[str, Inode]]:
    for name in sorted(folder.entries):
        node = folder.entries[name]
        if isinstance(node, Inode):
            yield f"{path}/{name}", node
        else:
            yield from _files_below(node, f"{path}/{name}")


def _survivors(changes: list[Change], rng: random.Random, *, ordered: bool) -> list[Change]:
    throw = rng.random()
    if throw < _NONE_BELOW:
        return []
    if throw < _ALL_BELOW:
        return changes
    if ordered:
        return changes[: rng.randrange(len(changes) + 1)]
    return [change for change in changes if rng.random() < 0.5]


def _may_stand(change: Change, kept: set[Change]) -> bool:
    return change.after is None or change.after.is_synced or change.after in kept


def _copied(node: Node, copies: dict[Node, Node]) -> Node:
    if isinstance(node, Folder):
        return _copied_folder(node, copies)
    if node not in copies:
        copies[node] = node.clone()
    return copies[node]


def _copied_folder(folder: Folder, copies: dict[Node, Node]) -> Folder:
    copy = copies.get(folder)
    if copy is None:
        copy = copies[folder] = Folder()
        for source, target in ((folder.entries, copy.entries), (folder.synced, copy.synced)):
            for name, node in source.items():
                target[name] = _copied(node, copies)
    assert isinstance(copy, Folder)
    return copy
