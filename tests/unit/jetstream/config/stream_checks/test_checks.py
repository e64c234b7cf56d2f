"""The rules for stream configurations give what nats-server gives, in its order."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.go import json as go_json
from headwater.jetstream.api.documents import ErrorDocument
from headwater.jetstream.config.stream_checks.checks import (
    Surroundings,
    check_addressed,
    check_new,
    check_update,
    normalised,
)
from headwater.jetstream.config.stream_config import (
    StreamConfig,
    StreamRequest,
    identical,
    with_required_level,
    with_server_metadata,
)
from headwater.jetstream.config.stream_subjects import StreamSubjects
from headwater.jetstream.errors import ApiError
from headwater.jetstream.request_bodies import read_request
from tests.kit.recorded.streams import (
    CONFIGS,
    ORACLE_LEVEL,
    ORACLE_VERSION,
    Document,
    from_difference,
    load,
)

GROUPS = load(CONFIGS)
CASES = [
    pytest.param(case, group["surroundings"], id=f"{case['operation']}: {case['title']}")
    for group in GROUPS
    for case in group["cases"]
]


def request_of(document: Document) -> StreamRequest:
    return read_request(json.dumps(document).encode(), StreamRequest, strict=True)


def surroundings_of(streams: list[Document], limits: dict[str, Any]) -> Surroundings:
    """An account after the streams were created one after the other."""
    configs: dict[str, StreamConfig] = {}
    taken = StreamSubjects()
    surroundings = Surroundings(streams=configs, taken=taken, **limits)
    for document in streams:
        config = check_new(request_of(document), surroundings)
        configs[config.name] = config
        taken.add(config.name, config.subjects)
    return surroundings


def answer(operation: str, document: Document, name: str, around: Surroundings) -> Document:
    """The configuration or the error, as a reply would have it."""
    try:
        request = request_of(document)
        if operation == "create":
            check_addressed(request, name)
            config = check_new(request, around)
        else:
            config = check_update(around.streams.get(name), request, around, name)
    except ApiError as error:
        return {"error": msgspec.to_builtins(ErrorDocument.of(error))}
    shown = with_server_metadata(config, ORACLE_VERSION, ORACLE_LEVEL)
    return {"config": json.loads(go_json.write(shown))}


@pytest.mark.parametrize(("case", "limits"), CASES)
def test_the_answer_is_that_of_nats_server(case: Document, limits: dict[str, Any]) -> None:
    request = case["request"]
    name = case.get("addressed", request.get("name", ""))
    expected = case["reply"]
    if "config" in expected:
        expected = {"config": from_difference(expected["config"], name)}
    around = surroundings_of(case.get("streams", []), limits)
    assert answer(case["operation"], request, name, around) == expected


# nats-server takes these once, and would refuse or shorten what it makes of them.
NOT_TAKEN_AGAIN = (
    "counter with markers",
    "republish to nowhere becomes everywhere",
    "One server takes any placement and keeps it, an empty one excepted (2)",
)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case['operation']}: {case['title']}")
        for group in GROUPS
        for case in group["cases"]
        if "config" in case["reply"] and case["title"] not in NOT_TAKEN_AGAIN
    ],
)
def test_what_is_complete_stays_as_it_is(case: Document) -> None:
    name = case["request"]["name"]
    config = request_of(from_difference(case["reply"]["config"], name)).over(None)
    kept = with_required_level(config)
    assert normalised(kept, False, Surroundings()) == kept
    assert identical(config, kept)


# --- our own settings -----------------------------------------------------------------------------

PLAIN: Document = {"name": "S"}
MIRROR: Document = {"name": "S", "mirror": {"name": "O"}}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (
            PLAIN | {"read_consistency": "strong", "allow_direct": True},
            "allow direct can not be set with strong read consistency",
        ),
        (
            MIRROR | {"read_consistency": "strong", "mirror_direct": True},
            "mirror direct can not be set with strong read consistency",
        ),
        (
            PLAIN | {"write_consistency": "eventual", "read_consistency": "weak"},
            "eventual write consistency requires default read consistency",
        ),
        (
            PLAIN | {"write_consistency": "eventual", "read_consistency": "strong"},
            "eventual write consistency requires default read consistency",
        ),
        (
            PLAIN | {"write_consistency": "eventual", "persist_mode": "async"},
            "async persist mode is not supported with eventual write consistency",
        ),
        (PLAIN | {"ack_timeout": -1}, "ack timeout can not be negative"),
        (MIRROR | {"max_staleness": -1}, "max staleness can not be negative"),
        (PLAIN | {"max_staleness": 1}, "max staleness requires a mirror"),
    ],
)
def test_consistency_settings_that_contradict_are_refused(document: Document, reason: str) -> None:
    error = answer("create", document, "S", Surroundings())["error"]
    assert error == {"code": 500, "err_code": 10052, "description": reason}


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        (PLAIN | {"read_consistency": "default"}, {}),
        (PLAIN | {"read_consistency": ""}, {}),
        (PLAIN | {"read_consistency": "weak"}, {"allow_direct": True}),
        (PLAIN | {"read_consistency": "weak", "allow_direct": True}, {"allow_direct": True}),
        (PLAIN | {"read_consistency": "weak", "allow_direct": False}, {"allow_direct": True}),
        (PLAIN | {"read_consistency": "strong", "allow_direct": False}, {"allow_direct": False}),
        (MIRROR | {"read_consistency": "weak"}, {"allow_direct": True, "mirror_direct": True}),
        (MIRROR | {"read_consistency": "strong"}, {"allow_direct": False, "mirror_direct": False}),
        (PLAIN | {"write_consistency": "strong"}, {}),
        (PLAIN | {"write_consistency": "eventual"}, {"write_consistency": "eventual"}),
        (PLAIN | {"ack_timeout": 0}, {"ack_timeout": 0}),
        (PLAIN | {"ack_timeout": None}, {}),
        (PLAIN | {"ack_timeout": 5}, {"ack_timeout": 5}),
        (MIRROR | {"max_staleness": 7}, {"max_staleness": 7}),
        (MIRROR | {"max_staleness": 0}, {}),
    ],
)
def test_consistency_settings_are_shown_only_when_set(document: Document, shown: Document) -> None:
    config = answer("create", document, "S", Surroundings())["config"]
    ours = ("read_consistency", "write_consistency", "ack_timeout", "max_staleness")
    direct = {key: config[key] for key in ("allow_direct", "mirror_direct") if key in shown}
    extra = {key: config[key] for key in ours if key in config}
    if document.get("read_consistency") in ("weak", "strong"):
        shown = shown | {"read_consistency": document["read_consistency"]}
    assert direct | extra == shown


def test_a_strong_mirror_does_not_inherit_direct_reads() -> None:
    around = surroundings_of([{"name": "O", "allow_direct": True}], {})
    config = answer("create", MIRROR | {"read_consistency": "strong"}, "S", around)["config"]
    assert config["mirror_direct"] is False


@pytest.mark.parametrize("key", ["read_consistency", "write_consistency"])
def test_an_unknown_consistency_is_no_json(key: str) -> None:
    error = answer("create", PLAIN | {key: "foo"}, "S", Surroundings())["error"]
    assert error["err_code"] == 10025
    assert error["description"] == 'invalid JSON: can not unmarshal "\\"foo\\""'


def test_consistency_may_change_with_an_update() -> None:
    around = surroundings_of([PLAIN | {"read_consistency": "weak"}], {})
    shown = answer("update", PLAIN | {"read_consistency": "strong"}, "S", around)["config"]
    assert (shown["read_consistency"], shown["allow_direct"]) == ("strong", False)
    assert shown["metadata"]["_nats.req.level"] == "3"


OURS = ("read_consistency", "write_consistency", "ack_timeout", "max_staleness")


def ours_of(config: Document) -> Document:
    return {key: config[key] for key in OURS if key in config}


@pytest.mark.parametrize(
    "settings",
    [
        {"read_consistency": "weak"},
        {"read_consistency": "strong"},
        {"read_consistency": "strong", "ack_timeout": 5},
        {"write_consistency": "eventual"},
        {"write_consistency": "eventual", "ack_timeout": 0},
    ],
)
def test_a_client_that_does_not_know_our_settings_keeps_them(settings: Document) -> None:
    around = surroundings_of([PLAIN | settings], {})
    updated = answer("update", PLAIN | {"description": "new"}, "S", around)["config"]
    assert (updated["description"], ours_of(updated)) == ("new", settings)
    created = answer("create", PLAIN, "S", around)["config"]
    assert ours_of(created) == settings


def test_a_mirror_keeps_its_staleness_likewise() -> None:
    around = surroundings_of([MIRROR | {"max_staleness": 7}], {})
    assert ours_of(answer("update", MIRROR, "S", around)["config"]) == {"max_staleness": 7}
    said = answer("update", MIRROR | {"max_staleness": 0}, "S", around)["config"]
    assert ours_of(said) == {}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"read_consistency": "weak"}, {"read_consistency": "default"}),
        ({"read_consistency": "strong"}, {"read_consistency": ""}),
        ({"write_consistency": "eventual"}, {"write_consistency": "default"}),
        ({"write_consistency": "eventual"}, {"write_consistency": "strong"}),
        ({"ack_timeout": 5}, {"ack_timeout": None}),
    ],
)
def test_a_setting_of_ours_is_taken_back_by_saying_so(settings: Document, said: Document) -> None:
    around = surroundings_of([PLAIN | settings], {})
    assert ours_of(answer("update", PLAIN | said, "S", around)["config"]) == {}


def test_creating_with_another_explicit_level_is_a_conflict() -> None:
    around = surroundings_of([PLAIN | {"read_consistency": "weak"}], {})
    error = answer("create", PLAIN | {"read_consistency": "default"}, "S", around)["error"]
    assert error["err_code"] == 10058


def test_creating_a_strong_bucket_again_by_a_client_that_wants_direct_reads_is_no_conflict() -> (
    None
):
    around = surroundings_of([PLAIN | {"read_consistency": "strong"}], {})
    shown = answer("create", PLAIN | {"allow_direct": True}, "S", around)["config"]
    assert (shown["read_consistency"], shown["allow_direct"]) == ("strong", False)


def test_an_update_that_asks_a_strong_stream_for_direct_reads_is_refused() -> None:
    around = surroundings_of([PLAIN | {"read_consistency": "strong"}], {})
    error = answer("update", PLAIN | {"allow_direct": True}, "S", around)["error"]
    assert error["err_code"] == 10052


def test_a_weak_streams_own_configuration_may_be_sent_back_as_strong() -> None:
    around = surroundings_of([PLAIN | {"read_consistency": "weak"}], {})
    shown = answer("update", PLAIN, "S", around)["config"]
    assert shown["allow_direct"] is True
    changed = answer("update", shown | {"read_consistency": "strong"}, "S", around)["config"]
    assert (changed["read_consistency"], changed["allow_direct"]) == ("strong", False)


@pytest.mark.parametrize(
    ("old", "asked", "complaint"),
    [
        ({}, {"read_consistency": "weak"}, "allow_direct is true with weak read consistency"),
        (
            {"read_consistency": "weak"},
            {"read_consistency": "strong", "allow_direct": True},
            "allow_direct is false with strong read consistency",
        ),
    ],
)
def test_pedantic_complains_about_direct_reads_that_would_be_adjusted(
    old: Document, asked: Document, complaint: str
) -> None:
    around = surroundings_of([PLAIN | old], {})
    pedantic = PLAIN | asked | {"pedantic": True, "duplicate_window": 10**9}
    error = answer("update", pedantic, "S", around)["error"]
    assert (error["err_code"], error["description"]) == (10157, f"pedantic mode: {complaint}")


def test_pedantic_does_not_complain_about_direct_reads_that_fit() -> None:
    weak = PLAIN | {"read_consistency": "weak", "allow_direct": True, "pedantic": True}
    assert "config" in answer("create", weak, "S", Surroundings())


def test_replicas_are_allowed_in_a_cluster() -> None:
    around = Surroundings(is_clustered=True)
    assert answer("create", PLAIN | {"num_replicas": 3}, "S", around)["config"]["num_replicas"] == 3


# --- any request ----------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["a", "a.>", "*", "limits", "memory", "new", "async", "S", "{{foo(1)}}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "src", "dest", "api", "subject_transforms", "external", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
KEYS = st.sampled_from([*StreamRequest.__struct_fields__, "NAME", "unknown"])


def documents() -> st.SearchStrategy[Document]:
    """Requests in which anything may be anything, but often for a stream that there is."""
    return st.builds(
        lambda named, rest: rest | {"name": "S"} if named else rest,
        st.booleans(),
        st.dictionaries(KEYS, VALUES, max_size=6),
    )


AROUND = surroundings_of(
    [{"name": "S", "subjects": ["s"]}, {"name": "O", "sources": [{"name": "S"}]}], {}
)


@given(documents(), st.sampled_from(["create", "update"]), st.booleans())
def test_any_request_gives_a_configuration_or_an_error(
    document: Document, operation: str, alone: bool
) -> None:
    around = Surroundings() if alone else AROUND
    reply = answer(operation, document, "S", around)
    assert list(reply) in (["config"], ["error"])


@given(documents())
def test_what_was_accepted_is_accepted_again(document: Document) -> None:
    try:
        request = request_of(document)
        config = check_new(request, Surroundings())
    except ApiError:
        return
    again = go_json.read(go_json.write(config), StreamRequest, strict=True)
    assert check_new(again, Surroundings()) == config
    existing = Surroundings(streams={config.name: config})
    assert check_new(again, existing) is config
    changed = msgspec.structs.replace(again, description=again.description + "x")
    if len(changed.description) < 100:
        with pytest.raises(ApiError, match="already in use"):
            check_new(changed, existing)
