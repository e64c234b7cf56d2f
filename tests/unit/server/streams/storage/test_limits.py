"""Streams reserve bytes, and neither an account nor the server reserves more than it may."""

from typing import Final

import pytest

from headwater.jetstream import error_codes
from headwater.jetstream.account import AccountLimits, JetStreamAccount
from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.errors import ApiError, ErrorCode
from headwater.jetstream.meta.coming_streams import ComingStreams
from headwater.server.configuration.options import AccountOptions, Options
from headwater.server.streams.storage.limits import ServerLimits
from headwater.server.streams.storage.resources import ResourceError, Resources
from headwater.store.log.message_log import Batch
from tests.kit.api_world import ApiWorld

SERVER_BYTES: Final = 1000
NO_LIMITS: Final = AccountLimits()
RESOURCES: Final = Resources("/data", SERVER_BYTES, SERVER_BYTES)


def limits_of(**accounts: AccountLimits | None) -> ServerLimits:
    """The limits of a server with accounts."""
    named = tuple(AccountOptions(name, jetstream=limits) for name, limits in accounts.items())
    return ServerLimits(Options(accounts=named), RESOURCES)


def account_of(limits: AccountLimits = NO_LIMITS) -> JetStreamAccount:
    """An account without a reservation."""
    return JetStreamAccount("A", limits, ApiWorld().account.server)


def stream(max_bytes: int, storage: Storage = Storage.FILE, consumers: int = -1) -> StreamConfig:
    return StreamConfig(name="S", max_bytes=max_bytes, storage=storage, max_consumers=consumers)


def refusal(
    limits: ServerLimits,
    account: JetStreamAccount,
    config: StreamConfig,
    old: StreamConfig | None = None,
) -> int | None:
    """The number of the error that a reservation meets."""
    try:
        limits.check_reservation(account, config, old, ComingStreams())
    except ApiError as error:
        return error.err_code
    return None


def test_an_account_without_jetstream_has_no_limits() -> None:
    limits = limits_of(A=AccountLimits(max_streams=3), B=None)
    assert limits.of_account("A") == AccountLimits(max_streams=3)
    assert limits.of_account("B") is None
    assert limits.of_account("$G") is None


def test_the_global_account_has_jetstream_if_there_is_no_other() -> None:
    assert limits_of().of_account("$G") == AccountLimits()


def test_accounts_may_not_be_given_more_than_the_server_has() -> None:
    limits_of(A=AccountLimits(max_storage=600), B=AccountLimits(max_storage=400)).check_accounts()
    beyond = limits_of(A=AccountLimits(max_storage=600), B=AccountLimits(max_storage=401))
    with pytest.raises(ResourceError, match="configured accounts"):
        beyond.check_accounts()


@pytest.mark.parametrize(
    ("storage", "error"),
    [
        (Storage.FILE, error_codes.STORAGE_RESOURCES_EXCEEDED),
        (Storage.MEMORY, error_codes.MEMORY_RESOURCES_EXCEEDED),
    ],
)
def test_a_new_stream_may_reserve_the_last_byte_of_the_server(
    storage: Storage, error: ErrorCode
) -> None:
    limits, account = limits_of(), account_of()
    assert refusal(limits, account, stream(SERVER_BYTES, storage)) is None
    assert refusal(limits, account, stream(SERVER_BYTES + 1, storage)) == error.err_code


def test_a_new_stream_may_reserve_the_last_byte_of_its_account() -> None:
    limits, account = limits_of(), account_of(AccountLimits(max_storage=10))
    assert refusal(limits, account, stream(10)) is None
    assert refusal(limits, account, stream(11)) is not None


def test_a_stream_without_a_limit_needs_one_byte() -> None:
    limits = limits_of()
    limits.usage.file.reserved += SERVER_BYTES - 1
    assert refusal(limits, account_of(), stream(-1)) is None
    limits.usage.file.reserved += 1
    assert refusal(limits, account_of(), stream(-1)) is not None


def test_a_changed_stream_reserves_the_difference() -> None:
    limits, old = limits_of(), stream(900)
    limits.usage.file.reserved += 900
    assert refusal(limits, account_of(), stream(SERVER_BYTES), old) is None
    assert refusal(limits, account_of(), stream(SERVER_BYTES + 1), old) is not None


def test_a_stream_may_become_smaller_on_a_server_that_has_reserved_too_much() -> None:
    limits, old = limits_of(), stream(900)
    limits.usage.file.reserved += SERVER_BYTES
    assert refusal(limits, account_of(), stream(-1), old) is None


def test_a_stream_may_not_allow_more_consumers_than_its_account() -> None:
    account = account_of(AccountLimits(max_consumers=5))
    assert refusal(limits_of(), account, stream(1, consumers=5)) is None
    beyond = refusal(limits_of(), account, stream(1, consumers=6))
    assert beyond == error_codes.MAXIMUM_CONSUMERS_LIMIT.err_code


def test_a_server_is_full_one_byte_past_its_limit() -> None:
    limits = limits_of()
    limits.usage.file.used += SERVER_BYTES
    limits.check_room(Storage.FILE)
    assert limits.room_left(Storage.FILE) == 0
    limits.usage.file.used += 1
    with pytest.raises(ApiError):
        limits.check_room(Storage.FILE)
    limits.check_room(Storage.MEMORY)


@pytest.mark.parametrize("storage", Storage)
@pytest.mark.parametrize("of_account", [-1, 0, 500, SERVER_BYTES + 100])
def test_an_account_has_room_where_no_check_refuses(storage: Storage, of_account: int) -> None:
    limits = limits_of()
    world = ApiWorld(stream={"storage": storage.value})
    account = world.account
    account.limits = AccountLimits(max_memory=of_account, max_storage=of_account)
    limits.usage = account.server.usage
    limits.configure(Options(), Resources("/data", SERVER_BYTES, SERVER_BYTES))

    def is_refused(size: int) -> bool:
        try:
            limits.check_room(storage)
            account.check_account_room(storage, size)
        except ApiError:
            return True
        return False

    # The subject and the overhead of a message have 20 bytes; the total passes both limits.
    for size in (80, 379, 0, 1, 459, 1, 0):
        world.stream.log.append(Batch([b"s.ab"], [b""], [bytes(size)], [1]))
        account.update_usage(world.stream)
        used = limits.usage.used(storage)
        for added in (0, 1, 500 - used, 501 - used, 1100 - used, 1101 - used):
            assert account.has_room(storage, added) is not is_refused(added), (used, added)
    assert limits.usage.used(storage) > SERVER_BYTES


def test_a_reload_changes_the_room_of_an_account() -> None:
    limits = limits_of()
    account = account_of()
    account.server.usage = limits.usage
    limits.usage.file.used += SERVER_BYTES + 1
    assert not account.has_room(Storage.FILE, 0)
    limits.configure(Options(), Resources("/data", SERVER_BYTES, SERVER_BYTES + 1))
    assert account.has_room(Storage.FILE, 0)
    account.limits = AccountLimits(max_storage=0)
    assert not account.has_room(Storage.FILE, 1)
