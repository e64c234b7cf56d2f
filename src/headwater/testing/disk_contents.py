"""The bytes of one simulated file: the content for reads, and the possible states of the medium.

Reads show all that was written. The medium holds a page (the unit in which an operating system
writes back) in any of the states that the page has had since the last sync, or torn between two of
them: first bytes of a newer one, the rest of an older one. It holds any of the sizes that the file
has had. Sizes and pages do not wait for each other.

Most files are only appended to, so for them only the synced size is kept: the state of a page on
the medium is then its synced part and, at most, the bytes that reads show. Only pages that were
overwritten or cut are kept, as images, until the next sync.

Invariants:

* Bytes before `_clean_size` are on the medium as reads show them, except in pages with images.
* `_images[page][0]` is the page as of the last sync; newer images follow in order.
* A page in `_lost` has images. It was given up by a failed sync: later syncs skip it until it is
  written again.

Must not know: names, handles or faults.
"""

import random
from collections.abc import Callable
from typing import Final

# States kept per page between two syncs: more of them between the oldest and the newest show
# nothing new, and a page written a million times must not cost a million pages.
IMAGES_MAX: Final = 8

# The chances that a power loss leaves a whole file as synced, as written, and as written but cut
# short; otherwise every page has its own fate. Both plain and mixed cases make programs fail.
_ALL_SYNCED_BELOW: Final = 0.15
_ALL_WRITTEN_BELOW: Final = 0.30
_CUT_SHORT_BELOW: Final = 0.55

# The chances for one page: as synced, as written, a state in between; otherwise torn.
_PAGE_SYNCED_BELOW: Final = 0.30
_PAGE_WRITTEN_BELOW: Final = 0.60
_PAGE_BETWEEN_BELOW: Final = 0.70

_PAGES_DESCRIBED_MAX: Final = 16

# The content of a block that a file got and never wrote, from random numbers and a size.
Leftover = Callable[[random.Random, int], bytes]


def zeros(_: random.Random, size: int) -> bytes:
    """The leftover of a file system that hides earlier content."""
    return bytes(size)


def noise(rng: random.Random, size: int) -> bytes:
    """The leftover of a file system that shows earlier content, as random bytes."""
    return rng.randbytes(size)


def stale(pool: "list[Contents]") -> Leftover:
    """The leftover of a file system that shows earlier content, from pages of these files."""

    def leftover(rng: random.Random, size: int) -> bytes:
        contents = rng.choice(pool)
        page = rng.randrange(contents.size // size + 1)
        return _padded(contents.read(page * size, size), size)

    return leftover


class Contents:
    """One file's bytes. Offsets and sizes are checked by the caller."""

    __slots__ = (
        "_clean_size",
        "_data",
        "_images",
        "_lost",
        "_page_bytes",
        "_past_sizes",
        "_shared",
        "_stretch_start",
        "_synced_size",
    )

    def __init__(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._data = bytearray()
        # Whether a clone shares the bytearray: the first that changes it takes a copy.
        self._shared = False
        self._clean_size = 0
        self._synced_size = 0
        # Sizes the file has had since the last sync: it grew from `_stretch_start` to its current
        # size, and before each truncation from one end of a past stretch to the other.
        self._stretch_start = 0
        self._past_sizes: list[tuple[int, int]] = []
        self._images: dict[int, list[bytes]] = {}
        self._lost: set[int] = set()

    def clone(self) -> "Contents":
        """A copy of the state; it costs nothing per byte until one of the two changes."""
        twin = Contents(self._page_bytes)
        self._shared = twin._shared = True
        twin._data = self._data
        twin._clean_size = self._clean_size
        twin._synced_size = self._synced_size
        twin._stretch_start = self._stretch_start
        twin._past_sizes = list(self._past_sizes)
        twin._images = {page: list(images) for page, images in self._images.items()}
        twin._lost = set(self._lost)
        return twin

    # --- the view of a process ------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes that reads show."""
        return len(self._data)

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return bytes(memoryview(self._data)[offset : offset + size])

    def append(self, data: bytes) -> None:
        """Add bytes to the end."""
        if self._shared:
            self._own()
        if self._lost and data:
            self._write_again(len(self._data), len(data))
        self._data += data

    def overwrite(self, offset: int, data: bytes) -> None:
        """Replace existing bytes."""
        if data:
            self._own()
            self._remember(offset, offset + len(data))
            self._write_again(offset, len(data))
            self._data[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        if size == len(self._data):
            return
        self._own()
        end = len(self._data)
        self._remember(size, end)
        self._past_sizes = _merged([*self._past_sizes, (self._stretch_start, end)])
        self._stretch_start = size
        del self._data[size:]
        self._clean_size = min(self._clean_size, size)
        # The state after the cut too: the file may grow again from here.
        self._remember(size, end)
        self._lost = {page for page in self._lost if page * self._page_bytes < size}

    def sync(self) -> None:
        """Put everything on the medium, except pages that an earlier sync has lost."""
        self._synced_size = self._clean_size = self._stretch_start = len(self._data)
        self._past_sizes.clear()
        if self._images:
            self._images = {page: self._images[page] for page in sorted(self._lost)}

    def fail_sync(self) -> None:
        """Give up all pages that wait to be written, as kernels do; reads still show them."""
        if self._clean_size < len(self._data):
            for page in self._pages(self._clean_size, len(self._data)):
                self._images.setdefault(page, [self._synced_image(page)])
        end = len(self._data)
        self._lost = {page for page in self._images if page * self._page_bytes < end}

    def flip_bit(self, offset: int, bit: int) -> None:
        """Damage one bit, in every state of the page that has it."""
        self._own()
        self._data[offset] ^= 1 << bit
        page, index = divmod(offset, self._page_bytes)
        images = self._images.get(page, [])
        for number, image in enumerate(images):
            if index < len(image):
                flipped = bytes([image[index] ^ 1 << bit])
                images[number] = image[:index] + flipped + image[index + 1 :]

    # --- after a power loss ---------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether the medium holds what reads show."""
        end = len(self._data)
        return (
            not self._images
            and not self._past_sizes
            and end == self._clean_size == self._synced_size
        )

    def keep_written(self) -> None:
        """Let everything reach the medium."""
        self._lost.clear()
        self.sync()

    def keep_synced(self) -> None:
        """Let only synced bytes reach the medium."""
        size = self._synced_size
        data = self._data[: min(size, self._clean_size)]
        data += bytes(size - len(data))
        for page, images in self._images.items():
            start = page * self._page_bytes
            if start < size:
                data[start : start + self._page_bytes] = _padded(images[0], self._page_bytes)
        self._settle(data, size)

    def keep_some(self, rng: random.Random, leftover: Leftover) -> str:
        """Let a random part of the rest reach the medium. Returns a description of it."""
        written = len(self._data)
        throw = rng.random()
        if throw < _ALL_SYNCED_BELOW:
            self.keep_synced()
            fate = "as synced"
        elif throw < _ALL_WRITTEN_BELOW:
            self.keep_written()
            fate = "as written"
        elif throw < _CUT_SHORT_BELOW:
            size = _between(rng, self._stretch_start, written)
            self._settle(self._data[:size], size)
            fate = "cut short"
        else:
            fate = self._keep_some_pages(rng, leftover)
        return f"{fate}: {len(self._data)} of {written} bytes"

    def _keep_some_pages(self, rng: random.Random, leftover: Leftover) -> str:
        stretches = [*self._past_sizes, (self._stretch_start, len(self._data))]
        size = _between(rng, *rng.choice(stretches))
        data = self._data[:size]
        data += bytes(size - len(data))
        fates = []
        unwritten = self._pages(self._clean_size, size)
        for page in sorted({*self._images, *unwritten}):
            start = page * self._page_bytes
            if start < size:
                image, fate = self._fate_of_page(page, rng, leftover)
                data[start : start + self._page_bytes] = image
                fates.append(f"{page} {fate}")
        self._settle(data, size)
        if len(fates) > _PAGES_DESCRIBED_MAX:
            fates[_PAGES_DESCRIBED_MAX:] = ["…"]
        return "page by page (" + ", ".join(fates) + ")"

    def _fate_of_page(self, page: int, rng: random.Random, leftover: Leftover) -> tuple[bytes, str]:
        start = page * self._page_bytes
        images = list(self._images.get(page) or [self._synced_image(page)])
        images.append(bytes(self._data[start : start + self._page_bytes]))
        if not images[0] and rng.random() < 0.5:
            # The block was never synced, so it may still hold content of another file.
            rest = leftover(rng, self._page_bytes)
        else:
            rest = bytes(self._page_bytes)
        full = [image + rest[len(image) :] for image in images]
        throw = rng.random()
        if throw < _PAGE_SYNCED_BELOW:
            return full[0], "as synced"
        if throw < _PAGE_WRITTEN_BELOW:
            return full[-1], "as written"
        if throw < _PAGE_BETWEEN_BELOW:
            return rng.choice(full), "as once written"
        newer = rng.randrange(1, len(full))
        older = rng.randrange(newer)
        end = max(len(images[newer]), len(images[older]))
        cut = rng.randint(min(_first_difference(full[newer], full[older]), end), end)
        return full[newer][:cut] + full[older][cut:], f"torn at {cut}"

    def _settle(self, data: bytearray, size: int) -> None:
        """Make `data` the whole content, which is on the medium."""
        del data[size:]
        self._data = data
        self._shared = False
        self._lost.clear()
        self.sync()

    # --- bookkeeping of bytes that are not on the medium ----------------------------------------

    def _own(self) -> None:
        if self._shared:
            self._data = bytearray(self._data)
            self._shared = False

    def _pages(self, start: int, end: int) -> range:
        """The pages that hold bytes in `start:end`."""
        return range(start // self._page_bytes, -(-end // self._page_bytes))

    def _synced_image(self, page: int) -> bytes:
        """A page without images, as of the last sync."""
        start = page * self._page_bytes
        return bytes(self._data[start : min(start + self._page_bytes, self._clean_size)])

    def _remember(self, start: int, end: int) -> None:
        """Keep the current state of pages that change in another way than by growing."""
        for page in self._pages(start, end):
            images = self._images.setdefault(page, [])
            if not images:
                images.append(self._synced_image(page))
            first = page * self._page_bytes
            current = bytes(self._data[first : first + self._page_bytes])
            if current != images[-1]:
                images.append(current)
                if len(images) > IMAGES_MAX:
                    del images[1]

    def _write_again(self, offset: int, size: int) -> None:
        """Let pages that were given up wait to be written again."""
        self._lost.difference_update(self._pages(offset, offset + size))


def _padded(image: bytes, size: int) -> bytes:
    return image + bytes(size - len(image))


def _first_difference(one: bytes, other: bytes) -> int:
    """The index of the first byte that differs between two images of one size."""
    difference = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return len(one) - -(-difference.bit_length() // 8)


def _between(rng: random.Random, low: int, high: int) -> int:
    """A number from `low` to `high`, both included and both likely."""
    return rng.choice((low, high, rng.randint(low, high), rng.randint(low, high)))


def _merged(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The numbers of all stretches in as few stretches as possible."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(stretches):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
