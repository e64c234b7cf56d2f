"""An origin as the configuration names it: its requests, its inbox and its subjects."""

from headwater.jetstream.config.stream_config import (
    ExternalStream,
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
)
from headwater.jetstream.copying.origins import Home, origins_of
from tests.kit.copied_messages import ENTROPY, origin_of

HOME = Home("S", "$G", "")


def test_requests_for_an_external_stream_have_its_prefix() -> None:
    origin = origin_of(True, external=ExternalStream(api="$JS.hub.API", deliver="deliver.x"))
    assert origin.api_subject("CONSUMER.CREATE.O") == b"$JS.hub.API.CONSUMER.CREATE.O"
    assert origin.new_inbox(ENTROPY).startswith("deliver.x.M.")


def test_other_requests_have_that_of_the_account() -> None:
    assert origin_of(False).api_subject("X") == b"$JS.API.X"
    assert origin_of(False).new_inbox(ENTROPY).startswith("$JS.S.")


def test_the_first_rule_that_matches_makes_the_subject() -> None:
    rules = (
        SubjectTransformConfig(src="a.*", dest="x.{{wildcard(1)}}"),
        SubjectTransformConfig(src="b", dest=""),
    )
    origin = origin_of(False, subject_transforms=rules)
    assert origin.filters == ("a.*", "b")
    assert origin.subjects_of([b"a.1", b"b", b"a.1"], ENTROPY) == [b"x.1", b"b", b"x.1"]


def test_a_rule_of_another_version_leaves_the_subject() -> None:
    rule = SubjectTransformConfig(src="a", dest="{{unknown(1)}}")
    assert origin_of(False, subject_transforms=(rule,)).subjects_of([b"a"], ENTROPY) == [b"a"]


def test_sources_of_one_stream_have_consumers_of_their_own() -> None:
    sources = tuple(StreamSource(name="O", filter_subject=each) for each in ("a", "b"))
    names = [origin.consumer_name for origin in origins_of(StreamConfig(sources=sources), HOME)]
    assert len({*names}) == 2
    assert all(name.startswith("JS_SRC_") for name in names)


def test_a_mirror_has_one_origin() -> None:
    [origin] = origins_of(StreamConfig(mirror=StreamSource(name="O")), HOME)
    assert origin.is_mirrored
    assert origin.consumer_name.startswith("JS_MIRROR_")


def test_domains_make_other_consumers() -> None:
    assert Home("S", "$G", "").hash != Home("S", "$G", "hub").hash
