"""INFO and CONNECT."""

import msgspec
import pytest

from headwater.base.errors import PeerError
from headwater.wire.info import ConnectOptions, ServerInfo


def info(**fields: object) -> ServerInfo:
    known: dict[str, object] = {
        "server_id": "N",
        "server_name": "n",
        "version": "2.15.1",
        "proto": 1,
        "go": "python",
        "host": "0.0.0.0",
        "port": 4222,
        "headers": True,
        "max_payload": 1048576,
        "headwater": "0.1",
    }
    return ServerInfo(**(known | fields))  # type: ignore[arg-type]


class TestInfo:
    def test_is_one_line_with_a_blank_before_its_end(self) -> None:
        line = info().encode()
        assert line.startswith(b'INFO {"server_id":"N","server_name":"n","version":"2.15.1"')
        assert line.endswith(b"} \r\n")
        assert line.count(b"\n") == 1

    def test_what_is_false_or_empty_is_left_out(self) -> None:
        said = msgspec.json.decode(info().encode()[5:])
        assert "auth_required" not in said
        assert "ldm" not in said
        assert "connect_urls" not in said
        assert "nonce" not in said

    @pytest.mark.parametrize(
        "fields",
        [
            {"auth_required": True},
            {"ldm": True, "connect_urls": ["a:1"]},
            {"client_id": 3, "client_ip": "127.0.0.1"},
            {"connect_info": True, "remote_account": "$G", "acc_is_sys": True},
        ],
    )
    def test_what_is_set_is_there(self, fields: dict[str, object]) -> None:
        assert fields.items() <= msgspec.json.decode(info(**fields).encode()[5:]).items()

    def test_headers_are_named_even_when_not_supported(self) -> None:
        assert msgspec.json.decode(info(headers=False).encode()[5:])["headers"] is False


class TestConnect:
    def test_a_client_that_says_nothing_is_verbose_pedantic_and_hears_itself(self) -> None:
        options = ConnectOptions()
        assert (options.verbose, options.pedantic, options.echo) == (True, True, True)
        assert (options.headers, options.no_responders, options.protocol) == (False, False, 0)

    def test_fields_are_taken_over_and_the_others_stay(self) -> None:
        options = ConnectOptions()
        options.update(b'{"verbose":false,"user":"me","pass":"secret","protocol":1}')
        options.update(b'{"name":"again"}')
        assert (options.verbose, options.user, options.password) == (False, "me", "secret")
        assert (options.protocol, options.name, options.pedantic) == (1, "again", True)

    def test_names_are_read_without_regard_to_case(self) -> None:
        options = ConnectOptions()
        options.update(b'{"Verbose":false,"PASS":"x","NO_RESPONDERS":true}')
        assert (options.verbose, options.password, options.no_responders) == (False, "x", True)

    def test_unknown_fields_of_any_shape_are_ignored(self) -> None:
        options = ConnectOptions()
        options.update(b'{"x":{"y":[1,null]},"password":"not this name","name":"n"}')
        assert (options.name, options.password) == ("n", "")

    def test_null_changes_nothing(self) -> None:
        options = ConnectOptions()
        options.update(b'{"verbose":null,"name":null,"protocol":null}')
        assert (options.verbose, options.name, options.protocol) == (True, "", 0)

    def test_what_go_accepts_is_accepted(self) -> None:
        options = ConnectOptions()
        options.update(b"null")
        options.update(b'{"name":"\xff","verbose":false} ')
        assert (options.name, options.verbose) == ("\ufffd", False)

    @pytest.mark.parametrize(
        "document",
        [
            b"",
            b"{",
            b"[]",
            b'"text"',
            b"1",
            b"{} {}",
            b'{"verbose":"false"}',
            b'{"verbose":0}',
            b'{"name":1}',
            b'{"protocol":"1"}',
            b'{"protocol":1.5}',
            b'{"protocol":true}',
            b'{"user":["me"]}',
            b"[" * 100_000,
            b'{"a":' * 100_000,
        ],
    )
    def test_a_document_that_is_refused_changes_nothing(self, document: bytes) -> None:
        options = ConnectOptions()
        options.update(b'{"name":"before","verbose":false}')
        with pytest.raises(PeerError):
            options.update(document)
        assert (options.name, options.verbose) == ("before", False)

    def test_a_bad_field_keeps_the_good_ones_out_too(self) -> None:
        options = ConnectOptions()
        with pytest.raises(PeerError):
            options.update(b'{"name":"new","verbose":1}')
        assert options.name == ""
