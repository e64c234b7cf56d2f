"""Changes of a tree of files in one step, for readers that know only the tree.

A plain reader lists directories and opens the files that it finds. While files are renamed or
removed one by one, the tree is neither in the old state nor in the new one, and a crash makes that
last. So the directory that holds all files of a change is built a second time beside the tree, out
of hard links, with the new files and without the old ones, and the two directories are exchanged by
one system call.

The second directory stands outside the tree, beside it, because a reader's pattern such as
`**/*.parquet` looks into every directory below the root, whatever its name.

If the system cannot do that (no hard links, no exchange, no place beside the tree), files are
renamed first and removed afterwards. This is also done for a change of files in several directories
of the root, or in the root itself: then each of those directories changes by itself.

Only one process may change a tree at a time: the caller holds a lock.
"""

import ctypes
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headwater.spark.jobs.archive.files.durable_files import HIDDEN, make_directory, remove, sync

# Constants of Linux: relative paths as usual; and exchange the two instead of replacing one.
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


@dataclass(frozen=True)
class TreeChange:
    """Files to add below `root`, with their sources, and files to remove, all absolute."""

    root: Path
    additions: Sequence[tuple[Path, Path]] = ()
    removals: Sequence[Path] = ()

    def make(self, before_removals: Callable[[], None] = lambda: None) -> None:
        """Make the change. `before_removals` runs when all additions are in place."""
        groups = [group for group in self._groups() if not group.swap(self.root)]
        for group in groups:
            group.add()
        if self.removals:
            before_removals()
        for group in groups:
            group.remove()

    def _groups(self) -> "Iterable[_Group]":
        """The files that can be changed in one step: all in one directory of the root."""
        groups: dict[str, _Group] = {}

        def group_of(path: Path) -> _Group:
            names = path.relative_to(self.root).parts
            name = names[0] if len(names) > 1 else ""
            return groups.setdefault(name, _Group())

        for draft, final in self.additions:
            group_of(final).additions.append((draft, final))
        for path in self.removals:
            group_of(path).removals.append(path)
        return groups.values()


def swap_directory(root: Path) -> Path:
    """The folder for directories that will replace others."""
    return root.parent / f"{HIDDEN}{root.name}.headwater-swap"


def clear_swap(root: Path) -> None:
    """Remove the remains of an interrupted change beside the tree."""
    shutil.rmtree(swap_directory(root), ignore_errors=True)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two directories in one step. Returns False if the system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    return int(call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)) == 0


@dataclass
class _Group:
    """The part of a change that lies in one directory."""

    additions: list[tuple[Path, Path]] = field(default_factory=list)
    removals: list[Path] = field(default_factory=list)

    def swap(self, root: Path) -> bool:
        """Make the change in one step. Returns False, without any change, if it cannot."""
        if len(self.additions) == 1 and not self.removals:
            return False
        top = self._top()
        if top == root:
            return False
        made = swap_directory(root) / top.name
        try:
            clear_swap(root)
            self._build(top, made)
            if not self._put(made, top):
                return False
        except OSError:
            return False
        finally:
            clear_swap(root)
        for draft, _ in self.additions:
            remove(draft)
        return True

    def add(self) -> None:
        for draft, final in self.additions:
            make_directory(final.parent)
            os.replace(draft, final)
        for directory in {final.parent for _, final in self.additions}:
            sync(directory)

    def remove(self) -> None:
        for path in self.removals:
            remove(path)
        for directory in {path.parent for path in self.removals}:
            sync(directory)

    def _top(self) -> Path:
        """The deepest directory that has all files of the group below it."""
        touched = [final.parent for _, final in self.additions]
        touched += [path.parent for path in self.removals]
        return Path(os.path.commonpath(touched))

    def _build(self, top: Path, made: Path) -> None:
        """Build the directory in its new state."""
        make_directory(made)
        gone = set(self.removals)
        for path in _files_below(top):
            if path not in gone:
                _link(path, made / path.relative_to(top))
        for draft, final in self.additions:
            _link(draft, made / final.relative_to(top))
        for directory, _, _ in os.walk(made):
            sync(directory)

    def _put(self, made: Path, top: Path) -> bool:
        """Exchange the built directory with the old one."""
        if top.is_dir():
            shutil.copymode(top, made)
            if not exchange(made, top):
                return False
        else:
            make_directory(top.parent)
            os.replace(made, top)
        sync(top.parent)
        return True


def _files_below(top: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(top):
        yield from (Path(directory, name) for name in names)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(source, target)
