"""Encryption at rest: the server's secret wraps stream keys, a stream key begets file keys, and a
file key encrypts blocks.

    secret in the configuration ──scrypt(salt)──▶ root ──HKDF(context)──▶ wrapping key
        wrapping key ──AEAD(random nonce)──▶ envelope with a StreamKey    one small file per stream
    StreamKey ──HKDF(salt of the file, cipher, identity)──▶ FileKey
        FileKey ──AEAD(random nonce)──▶ encrypted block                   segments, journals, …

Layouts, in bytes; what is larger than a byte is little-endian:

    envelope   magic "HWKE" 4 | version 1 | cipher 1 | scrypt log2 n 1, r 1, p 1 | zero 3
               scrypt salt 16 | nonce 12 | stream key, encrypted 32 | tag 16 | CRC-32 of the rest 4
    block      nonce 12 | content, encrypted n | tag 16

The number of the cipher (0: not encrypted) and the salt stand in the header of the file.

Keys. The secret in a configuration may be 32 random bytes in hexadecimal or a word. So it is
stretched with scrypt, at the cost that OWASP names for 32 MiB (0.2 s here). Cost and salt stand in
every envelope: they can change without a migration. The envelopes of a server share one salt, and
what scrypt gave is remembered, so opening a thousand streams stretches once. After a change of the
secret, `was_previous` says which stream keys to wrap again; the data stay as they are. That changes
the lock, not what the old secret had opened already. A file names its own cipher, so another one in
the configuration holds for new files.

Nonces. Two blocks with the same key and nonce give both away, and with AES-GCM the means to forge
more. A nonce that is counted, or is the offset in the file, repeats as soon as an offset is written
twice: after a power loss that took the tail, after restoring a snapshot or a backup, when two
copies of one folder both go on. Each would need a rule of its own, kept by code that is about
something else. So nothing is counted: every block draws 96 random bits, under a key of its file
that 128 other random bits have chosen. With `BLOCKS_PER_FILE_MAX` = 2**32 blocks in a file, the
bound of NIST SP 800-38D, the chance that any two meet is 2**-33; a file of 64 MiB in blocks of 1
KiB has 2**16 blocks and a chance of 2**-65, a million such files 2**-45. A tail that was cut off
and written again draws new ones and needs no further care. A file that is rewritten (compaction)
gets a new salt, and with it a new key.

Binding. The `identity` of a file (stream, kind, number) goes into its key; the position of a
block in the file and its header go into its tag. So a block opens only where it was written: not in
another file, not at another place, not under another header. A tag cannot show age: a whole
file, or a block at its own place, put back from an older copy of the same file, opens.
Sequences and checkpoints answer for that. Lengths are visible; after compression they say a little
about the content.

Cost per block, to encrypt and to decrypt: 64 KiB take 11 and 8 us with AES-GCM, 24 and 19 us with
ChaCha20-Poly1305; 1 KiB takes 3 to 4 us, and both grow by 28 bytes. From 128 KiB on, encrypting
costs several times as much per byte, because the C allocator maps such buffers again each time. A
file key takes 10 us.

This module must not know files, records or configuration; random bytes come from `Entropy`. No
secret gets into an error or a `repr`.
"""

import enum
from struct import Struct
from typing import Final, NamedTuple, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from headwater.base.checksums import crc32
from headwater.base.entropy import Entropy
from headwater.base.errors import OperatingError
from headwater.base.invariants import check

KEY_BYTES: Final = 32
SALT_BYTES: Final = 16
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16

# The bytes by which a block is longer when it is encrypted.
OVERHEAD_BYTES: Final = NONCE_BYTES + TAG_BYTES

# See "Nonces" above.
BLOCKS_PER_FILE_MAX: Final = 2**32

# The library counts in 31 bits. No block comes near, so half of that is a rounder limit.
BLOCK_BYTES_MAX: Final = 2**30

ENVELOPE_VERSION: Final = 1

_MAGIC: Final = b"HWKE"
_HEADER: Final = Struct("<4sBBBBB3x16s")
_CRC: Final = Struct("<I")
_POSITION: Final = Struct("<Q")
_NONCE_OFFSET: Final = _HEADER.size
_KEY_OFFSET: Final = _NONCE_OFFSET + NONCE_BYTES
_CRC_OFFSET: Final = _KEY_OFFSET + KEY_BYTES + TAG_BYTES

ENVELOPE_BYTES: Final = _CRC_OFFSET + _CRC.size

# Keys for different purposes never coincide. These words are, in effect, on disk.
_WRAPPING_LABEL: Final = b"headwater stream key wrapping 1\0"
_FILE_LABEL: Final = b"headwater file key 1\0"


class Cipher(enum.IntEnum):
    """Ciphers, all with keys of 256 bits. The numbers are on disk: they are never used again."""

    AES_GCM = 1
    CHACHA20_POLY1305 = 2


class CipherError(OperatingError):
    """Encrypted data cannot be used; nothing was changed."""


class WrongKeyError(CipherError):
    """A sound envelope that no configured secret opens."""


class DamagedEnvelopeError(CipherError):
    """An envelope that is not as it was written."""


class UnknownCipherError(CipherError):
    """An envelope or file of a version, cipher or cost that this server does not have."""


class AlteredBlockError(CipherError):
    """A block that was changed, cut, moved, or encrypted with another key."""


class StretchingCost(NamedTuple):
    """The cost of one guess at the secret, as parameters of scrypt."""

    log2_n: int
    r: int
    p: int

    @property
    def memory_bytes(self) -> int:
        """The memory that scrypt takes."""
        return 128 * self.r << self.log2_n


STRETCHING_COST: Final = StretchingCost(log2_n=15, r=8, p=3)

# An envelope can lie: what it asks for must not take the server down. Both leave room for the cost
# to rise eightfold one day.
STRETCHING_MEMORY_BYTES_MAX: Final = 256 * 1024 * 1024
STRETCHING_PASSES_MAX: Final = 24


class Unwrapped(NamedTuple):
    """A stream key, and whether the previous secret opened it: then it should be wrapped again."""

    key: "StreamKey"
    was_previous: bool


@final
class ServerKey:
    """The secret of the configuration, able to wrap stream keys and to get them back.

    `context` says whose key it is (account and stream, say): an envelope opens only with the
    context it was wrapped with. `cipher` is for new envelopes. `cost` is an argument for
    simulations and tests, which start thousands of servers.
    """

    __slots__ = ("_cipher", "_cost", "_previous", "_roots", "_salt", "_secret")

    def __init__(
        self,
        secret: str,
        previous: str | None,
        cipher: Cipher,
        cost: StretchingCost = STRETCHING_COST,
    ) -> None:
        check(secret != "" and previous != "", "an empty secret protects nothing")
        self._secret = _secret_bytes(secret)
        self._previous = None if previous is None else _secret_bytes(previous)
        self._cipher = cipher
        self._cost = cost
        self._salt: bytes | None = None
        self._roots: dict[tuple[bytes, bytes, StretchingCost], bytes] = {}

    def wrap(self, key: "StreamKey", context: bytes, entropy: Entropy) -> bytes:
        """An envelope for `key`, `ENVELOPE_BYTES` long; another one each time, and all open."""
        if self._salt is None:
            self._salt = _random(entropy, SALT_BYTES)
        header = _HEADER.pack(_MAGIC, ENVELOPE_VERSION, self._cipher, *self._cost, self._salt)
        box = self._box(self._secret, self._cipher, self._cost, self._salt, context)
        nonce = _random(entropy, NONCE_BYTES)
        body = header + nonce + box.encrypt(nonce, key.to_bytes(), header)
        return body + _CRC.pack(crc32(body))

    def unwrap(self, envelope: bytes, context: bytes) -> Unwrapped:
        """The stream key in `envelope`; raises WrongKeyError, or another CipherError."""
        cipher, cost, salt = _read_header(envelope)
        key = _open_envelope(envelope, self._box(self._secret, cipher, cost, salt, context))
        if key is not None:
            # Keys that are wrapped from now on share the salt: the next start stretches once for
            # all.
            if self._salt is None and cost == self._cost:
                self._salt = salt
            return Unwrapped(StreamKey(key), was_previous=False)
        if self._previous is not None:
            key = _open_envelope(envelope, self._box(self._previous, cipher, cost, salt, context))
            if key is not None:
                return Unwrapped(StreamKey(key), was_previous=True)
        tried = "key does" if self._previous is None else "key and the previous key do"
        raise WrongKeyError(
            f"the configured encryption {tried} not open the key of this stream: it was written"
            " with another key, or for another stream. Nothing was changed; start again with the"
            " key that was configured then, as key or as previous key"
        )

    def _box(
        self, secret: bytes, cipher: Cipher, cost: StretchingCost, salt: bytes, context: bytes
    ) -> AESGCM | ChaCha20Poly1305:
        root = self._roots.get((secret, salt, cost))
        if root is None:
            root = stretch(secret, salt, cost)
            self._roots[secret, salt, cost] = root
        return aead(cipher, derive(root, b"", _WRAPPING_LABEL + bytes([cipher]) + context))


@final
class StreamKey:
    """The key of one stream. It encrypts nothing itself: every file has a key of its own."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        check(len(key) == KEY_BYTES, f"a stream key has {KEY_BYTES} bytes")
        self._key = key

    @classmethod
    def generate(cls, entropy: Entropy) -> "StreamKey":
        """A key for a new stream."""
        return cls(_random(entropy, KEY_BYTES))

    def to_bytes(self) -> bytes:
        """The key itself: to be wrapped, never to be written as it is."""
        return self._key

    def new_file_key(self, cipher: Cipher, identity: bytes, entropy: Entropy) -> "FileKey":
        """A key for a file about to be written, whose header must keep its `cipher` and `salt`."""
        return self.file_key(cipher, _random(entropy, SALT_BYTES), identity)

    def file_key(self, cipher: int, salt: bytes, identity: bytes) -> "FileKey":
        """The key of a file that has this cipher and salt in its header; raises UnknownCipherError.

        Whether salt and identity are the right ones shows when a block is decrypted.
        """
        check(len(salt) == SALT_BYTES, f"a salt has {SALT_BYTES} bytes")
        known = _cipher_of(cipher)
        key = derive(self._key, salt, _FILE_LABEL + bytes([known]) + identity)
        return FileKey(known, salt, key)


@final
class FileKey:
    """Encrypts and decrypts the blocks of one file.

    `position` is where in the file the block stands. `associated` is what else has to be true of
    it: its header, as it stands in the file.
    """

    __slots__ = ("_blocks", "_box", "cipher", "salt")

    def __init__(self, cipher: Cipher, salt: bytes, key: bytes) -> None:
        self.cipher: Final = cipher
        self.salt: Final = salt
        self._box = aead(cipher, key)
        self._blocks = 0

    def encrypt(self, block: bytes, position: int, associated: bytes, entropy: Entropy) -> bytes:
        """`block` for the disk, `OVERHEAD_BYTES` longer; other bytes each time."""
        check(len(block) <= BLOCK_BYTES_MAX, f"a block of {len(block)} bytes")
        check(self._blocks < BLOCKS_PER_FILE_MAX, "too many blocks for one file key")
        self._blocks += 1
        nonce = _random(entropy, NONCE_BYTES)
        return nonce + self._box.encrypt(nonce, block, _POSITION.pack(position) + associated)

    def decrypt(self, encrypted: bytes, position: int, associated: bytes) -> bytes:
        """The block as it was; raises AlteredBlockError."""
        if not OVERHEAD_BYTES <= len(encrypted) <= BLOCK_BYTES_MAX + OVERHEAD_BYTES:
            raise AlteredBlockError(f"{len(encrypted)} bytes cannot be an encrypted block")
        # A view, because a slice would copy the block.
        content = memoryview(encrypted)[NONCE_BYTES:]
        bound = _POSITION.pack(position) + associated
        try:
            return self._box.decrypt(encrypted[:NONCE_BYTES], content, bound)
        except InvalidTag:
            raise AlteredBlockError(
                f"the block at {position} does not open: it was changed or moved,"
                " or is of another key"
            ) from None


def aead(cipher: Cipher, key: bytes) -> AESGCM | ChaCha20Poly1305:
    """The cipher with this key."""
    check(len(key) == KEY_BYTES, f"all ciphers have keys of {KEY_BYTES} bytes")
    return AESGCM(key) if cipher is Cipher.AES_GCM else ChaCha20Poly1305(key)


def derive(key: bytes, salt: bytes, info: bytes) -> bytes:
    """A key for one purpose from a key for many: HKDF with SHA-256."""
    return HKDF(SHA256(), KEY_BYTES, salt, info).derive(key)


def stretch(secret: bytes, salt: bytes, cost: StretchingCost) -> bytes:
    """A key from what a person may have thought up: scrypt."""
    return Scrypt(salt, KEY_BYTES, 1 << cost.log2_n, cost.r, cost.p).derive(secret)


def _secret_bytes(secret: str) -> bytes:
    # A configuration file may hold bytes that are not UTF-8, which then are surrogates here.
    return secret.encode("utf-8", "surrogatepass")


def _random(entropy: Entropy, count: int) -> bytes:
    data = entropy.random_bytes(count)
    check(len(data) == count, f"asked for {count} random bytes, got {len(data)}")
    return data


def _cipher_of(number: int) -> Cipher:
    try:
        return Cipher(number)
    except ValueError:
        known = ", ".join(f"{each.value} ({each.name})" for each in Cipher)
        raise UnknownCipherError(
            f"cipher number {number} is not known; this server has {known}"
        ) from None


def _read_header(envelope: bytes) -> tuple[Cipher, StretchingCost, bytes]:
    if len(envelope) < _HEADER.size or not envelope.startswith(_MAGIC):
        raise DamagedEnvelopeError("this is not an encrypted stream key")
    _, version, cipher, log2_n, r, p, salt = _HEADER.unpack_from(envelope)
    # Before length and checksum: another version may have them elsewhere.
    if version != ENVELOPE_VERSION:
        raise UnknownCipherError(
            f"the encrypted stream key has format version {version};"
            f" this server reads version {ENVELOPE_VERSION}"
        )
    if len(envelope) != ENVELOPE_BYTES:
        raise DamagedEnvelopeError(
            f"the encrypted stream key has {len(envelope)} bytes, not {ENVELOPE_BYTES}"
        )
    if _CRC.unpack_from(envelope, _CRC_OFFSET)[0] != crc32(envelope[:_CRC_OFFSET]):
        raise DamagedEnvelopeError("the encrypted stream key fails its checksum")
    return _cipher_of(cipher), _cost_of(log2_n, r, p), salt


def _cost_of(log2_n: int, r: int, p: int) -> StretchingCost:
    cost = StretchingCost(log2_n, r, p)
    is_valid = 1 <= log2_n < 16 * r and p >= 1  # RFC 7914, section 2
    is_bearable = p <= STRETCHING_PASSES_MAX and cost.memory_bytes <= STRETCHING_MEMORY_BYTES_MAX
    if not (is_valid and is_bearable):
        raise UnknownCipherError(
            f"the encrypted stream key asks for scrypt with n=2**{log2_n}, r={r}, p={p}; this"
            f" server goes to {STRETCHING_MEMORY_BYTES_MAX} bytes and p={STRETCHING_PASSES_MAX}"
        )
    return cost


def _open_envelope(envelope: bytes, box: AESGCM | ChaCha20Poly1305) -> bytes | None:
    """The stream key inside, or None if `box` is not what it was put in."""
    nonce = envelope[_NONCE_OFFSET:_KEY_OFFSET]
    try:
        return box.decrypt(nonce, envelope[_KEY_OFFSET:_CRC_OFFSET], envelope[:_NONCE_OFFSET])
    except InvalidTag:
        return None
