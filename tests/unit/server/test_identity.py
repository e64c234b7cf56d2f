"""Server ids."""

import base64
import binascii
import re

from headwater.server.identity import new_nonce, new_server_id
from tests.kit.world import SeededEntropy


def test_an_id_has_the_form_of_a_server_key() -> None:
    for seed in range(50):
        assert re.fullmatch(r"N[A-D][A-Z2-7]{54}", new_server_id(SeededEntropy(seed)))


def test_its_checksum_is_right() -> None:
    raw = base64.b32decode(new_server_id(SeededEntropy(1)))
    assert raw[0] == 13 << 3
    assert int.from_bytes(raw[-2:], "little") == binascii.crc_hqx(raw[:-2], 0)


def test_ids_come_from_the_dice_alone() -> None:
    assert new_server_id(SeededEntropy(1)) == new_server_id(SeededEntropy(1))
    assert new_server_id(SeededEntropy(1)) != new_server_id(SeededEntropy(2))


def test_a_nonce_has_15_letters_of_its_own() -> None:
    nonces = [new_nonce(SeededEntropy(seed)) for seed in range(50)]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{15}", nonce) for nonce in nonces)
    assert len(set(nonces)) == 50
