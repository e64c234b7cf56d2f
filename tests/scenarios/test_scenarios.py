"""Every scenario file is what happens."""

from pathlib import Path

import pytest

from tests.scenarios import outcome, raft_script, script

FOLDER = Path(__file__).parent
SCENARIOS = sorted(FOLDER.glob("*/*.txt"))
ROOMS = ("core", "streams", "consumers", "recovery", "raft")


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_scenario(path: Path, rewrite: bool) -> None:
    written = path.read_text()
    happened = (raft_script if path.parent.name == "raft" else script).run(written)
    if rewrite:
        path.write_text(happened)
    else:
        assert happened == written


def test_each_room_has_scenarios() -> None:
    assert {path.parent.name for path in SCENARIOS} == set(ROOMS)
    assert len(SCENARIOS) >= 28


@pytest.mark.parametrize("data", [b"a\r\nb\\n\x00\xff", b"x" * 100, b"{}", b""])
def test_bytes_come_back_as_they_were_written(data: bytes) -> None:
    assert outcome.unescaped(outcome.escaped(data)) == data


def test_a_wrong_outcome_is_found() -> None:
    text = "connect a\n  a < nothing like this\n"
    assert script.run(text) != text
    assert script.run(script.run(text)) == script.run(text)


JETSTREAM = "server\n| jetstream: enabled\nconnect app\n"
CREATE = 'app asks STREAM.CREATE.S {"name":"S","subjects":["s"],"max_age":2s}\n'


def created(fields: str) -> str:
    """The outcome of a creation, in a file that names these fields of the reply."""
    return script.run(f"{JETSTREAM}{CREATE}  app < {fields}\n").splitlines()[-1].strip()


def test_a_document_is_shown_by_the_fields_that_the_file_names() -> None:
    named = '{"state":{"messages":7},"config":{"max_age":0,"unknown":1}}'
    assert created(named) == 'app < {"state":{"messages":0},"config":{"max_age":2000000000}}'


def test_a_document_of_which_nothing_is_named_is_shown_whole() -> None:
    assert '"type":"io.nats.jetstream.api.v1.stream_create_response"' in created("anything")


def test_an_error_is_shown_also_where_the_file_does_not_expect_it() -> None:
    text = f'{JETSTREAM}app asks STREAM.INFO.S\n  app < {{"state":{{"messages":1}}}}\n'
    assert '"err_code":10059' in script.run(text)
