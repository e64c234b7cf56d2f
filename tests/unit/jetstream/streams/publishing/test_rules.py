"""The rules for publishes that follow from a configuration."""

from typing import Any

import pytest

from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import (
    Republish,
    Retention,
    StreamConfig,
    SubjectTransformConfig,
)
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.publishing.rules import PublishRules
from tests.kit.stream_driver import Surrounding

TRANSFORM = SubjectTransformConfig(src="a.*", dest="b.{{wildcard(1)}}")


def rules_of(**config: Any) -> PublishRules:
    heard = {b"heard"}
    host = Surrounding(BatchLimits())
    return PublishRules(StreamConfig(name="S", **config), host, lambda each: each in heard)


def test_a_matching_subject_is_transformed() -> None:
    rules = rules_of(subject_transform=TRANSFORM)
    assert rules.transformed(b"a.x") == b"b.x"
    assert rules.transformed(b"c") == b"c"


@pytest.mark.parametrize(
    "config", [{"subject_transform": TRANSFORM}, {"republish": Republish(src=">", dest="r.>")}]
)
def test_messages_that_change_on_their_way_are_checked_one_by_one(config: dict[str, Any]) -> None:
    assert rules_of().takes_plain
    assert not rules_of(**config).takes_plain


def test_a_rule_that_cannot_be_applied_is_reported_and_has_no_effect() -> None:
    broken = SubjectTransformConfig(src="a.*", dest="b.{{wildcard(7)}}")
    rules = rules_of(subject_transform=broken)
    assert rules.transformed(b"a.x") == b"a.x"
    assert [reason.partition(" is not")[0] for reason in rules.set_aside] == [
        'its subject transform to "b.{{wildcard(7)}}"'
    ]


def test_only_a_stream_by_interest_asks_for_consumers() -> None:
    by_interest = rules_of(retention=Retention.INTEREST)
    assert by_interest.has_interest(b"heard")
    assert not by_interest.has_interest(b"unheard")
    assert rules_of().has_interest(b"unheard")


def test_a_full_server_refuses_with_its_own_error() -> None:
    rules, error = rules_of(), ApiError.of(error_codes.INSUFFICIENT_RESOURCES)
    assert rules.server_refusal() is None
    host = rules.host
    assert isinstance(host, Surrounding)
    host.server_refusal = error
    assert rules.server_refusal() is error
