"""`headwater server passwd`: hashes that a server takes in place of passwords."""

import json
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest

from headwater.cli.server.group import COST_MIN, DEFAULT_COST, PASSWORD_BYTES_MAX
from tests.kit.command_line import Ended, Tool

CHEAP = ("--cost", str(COST_MIN))


def passwd(*flags: str, stdin: bytes = b"") -> Ended:
    """Run the command with the least work."""
    return Tool().run("server", "passwd", *CHEAP, *flags, stdin=stdin)


def test_the_hash_of_a_password_from_standard_input_lets_a_client_in(
    start_server: Callable[..., str], tmp_path: Path
) -> None:
    ended = passwd(stdin=b"correct horse\nnot this line\n")
    assert (ended.code, ended.err) == (0, "")
    config = tmp_path / "server.conf"
    config.write_text(f'authorization {{ user: ada, password: "{ended.out.strip()}" }}')
    tool = Tool(start_server("-c", str(config)))
    assert tool.run("pub", "a", "x", "--user", "ada", "--password", "correct horse").code == 0
    assert tool.run("pub", "a", "x", "--user", "ada", "--password", "wrong").code == 3


def test_a_generated_password_is_shown_and_its_hash_is_the_result() -> None:
    ended = passwd("--generate")
    password = ended.err.removeprefix("Password: ").strip()
    assert len(password) >= 32
    assert bcrypt.checkpw(password.encode(), ended.out.strip().encode())


def test_programs_get_hash_and_generated_password_in_one_document() -> None:
    document = json.loads(passwd("--generate", "--json").out)
    assert bcrypt.checkpw(document["password"].encode(), document["hash"].encode())
    assert set(json.loads(passwd("--json", stdin=b"x").out)) == {"hash"}


def test_the_cost_is_in_the_hash() -> None:
    assert passwd(stdin=b"x").out.startswith(f"$2a${COST_MIN:02}$")
    default = Tool().run("server", "passwd", stdin=b"x")
    assert default.out.startswith(f"$2a${DEFAULT_COST}$")


def test_a_password_may_be_as_long_as_bcrypt_reads() -> None:
    assert passwd(stdin=b"x" * PASSWORD_BYTES_MAX).code == 0


@pytest.mark.parametrize(
    ("password", "complaint"),
    [
        (b"", "The password is empty"),
        (b"x" * (PASSWORD_BYTES_MAX + 1), "The password has 73 bytes; bcrypt takes 72"),
        (b"a\0b", "and no NUL"),
        (b"\xff", "The password is not UTF-8"),
    ],
)
def test_a_password_that_bcrypt_cannot_take_is_refused(password: bytes, complaint: str) -> None:
    ended = passwd(stdin=password)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err


def test_a_cost_below_the_least_is_a_usage_error() -> None:
    assert Tool().run("server", "passwd", "--cost", str(COST_MIN - 1), stdin=b"x").code == 2
