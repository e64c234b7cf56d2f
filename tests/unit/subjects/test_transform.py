"""Subject transforms do what nats-server 2.15 does: the tables were recorded from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.invariants import InvariantViolation
from headwater.subjects.transform import (
    SubjectTransform,
    TransformError,
    check_characters,
    validate_mapping,
)
from headwater.testing.entropy import SeededEntropy, labelled_rng

SUBJECT = "invalid subject"
WRONG = "invalid mapping destination: function argument is invalid or in the wrong format"
FEW = "invalid mapping destination: not enough arguments passed to the function"
MANY = "invalid mapping destination: too many arguments passed to the function"
UNKNOWN = "invalid mapping destination: unknown function"
RANGE = "invalid mapping destination: wildcard index out of range"
INVALID = "invalid mapping destination: invalid transform"

# Source, destination, a subject, and what a stream with this transform stored it as; None where the
# subject stayed as it was.
APPLIED = [
    (b"in.*.*", b"o.{{wildcard(2)}}.{{wildcard(1)}}", b"in.a.b", b"o.b.a"),
    (b"in.*.*", b"o.$2.$1", b"in.a.b", b"o.b.a"),
    (b"in.*.*", b"o.$0.$1", b"in.a.b", b"o.in.a"),
    (b"in.*.*", b"o.{{wildcard(-3)}}", b"in.a.b", b"o.in"),
    (b"in.*.*", b"o.{{partition(5,1,2)}}", b"in.a.b", b"o.1"),
    (b"in.*.*", b"o.{{partition(5,1,2)}}", b"in.abcdef.x", b"o.3"),
    (b"in.*.*", b"o.{{partition(5,1,2)}}", b"in.-a-b.x", b"o.3"),
    (b"in.*.*", b"o.{{partition(5,1,2)}}", b"in.--a.x", b"o.4"),
    (b"in.*.*", b"o.{{partition(5,1,2)}}", b"in.a--b-.x", b"o.2"),
    (b"in.*.*", b"o.{{partition(5)}}", b"in.a.b", b"o.0"),
    (b"in.*.*", b"o.{{partition(5)}}", b"in.abcdef.x", b"o.4"),
    (b"in.*.*", b"o.{{partition(5)}}", b"in.-a-b.x", b"o.1"),
    (b"in.*.*", b"o.{{partition(5)}}", b"in.--a.x", b"o.2"),
    (b"in.*.*", b"o.{{partition(5)}}", b"in.a--b-.x", b"o.1"),
    (b"in.*.*", b"o.{{partition(0,1)}}", b"in.a.b", b"o.0"),
    (b"in.*.*", b"o.{{partition(-7,1)}}", b"in.a.b", b"o.3826002220"),
    (b"in.*.*", b"o.{{ Partition ( 5 , 1 ) }}", b"in.a.b", b"o.0"),
    (b"in.>", b"o.{{partition(5)}}.>", b"in.a.b", b"o.0.a.b"),
    (b"in.>", b"o.{{partition(5)}}.>", b"in.abcdef.x", b"o.4.abcdef.x"),
    (b"in.>", b"o.{{partition(5)}}.>", b"in.-a-b.x", b"o.1.-a-b.x"),
    (b"in.>", b"o.{{partition(5)}}.>", b"in.--a.x", b"o.2.--a.x"),
    (b"in.>", b"o.{{partition(5)}}.>", b"in.a--b-.x", b"o.1.a--b-.x"),
    (b"in.*.*", b"o.{{split(1,-)}}", b"in.a.b", b"o.a"),
    (b"in.*.*", b"o.{{split(1,-)}}", b"in.abcdef.x", b"o.abcdef"),
    (b"in.*.*", b"o.{{split(1,-)}}", b"in.-a-b.x", b"o.a.b"),
    (b"in.*.*", b"o.{{split(1,-)}}", b"in.--a.x", b"o..a"),
    (b"in.*.*", b"o.{{split(1,-)}}", b"in.a--b-.x", b"o.a.b"),
    (b"in.*.*", b"o.{{split(1,)}}.z", b"in.a.b", b"o.a.z"),
    (b"in.*.*", b"o.{{split(1,)}}.z", b"in.abcdef.x", b"o.a.b.c.d.e.f.z"),
    (b"in.*.*", b"o.{{split(1,)}}.z", b"in.-a-b.x", b"o.-.a.-.b.z"),
    (b"in.*.*", b"o.{{split(1,)}}.z", b"in.--a.x", b"o.-.-.a.z"),
    (b"in.*.*", b"o.{{split(1,)}}.z", b"in.a--b-.x", b"o.a.-.-.b.-.z"),
    (b"in.*.*", b"o.{{splitfromleft(1,2)}}", b"in.a.b", b"o.a"),
    (b"in.*.*", b"o.{{splitfromleft(1,2)}}", b"in.abcdef.x", b"o.ab.cdef"),
    (b"in.*.*", b"o.{{splitfromleft(1,2)}}", b"in.-a-b.x", b"o.-a.-b"),
    (b"in.*.*", b"o.{{splitfromleft(1,2)}}", b"in.--a.x", b"o.--.a"),
    (b"in.*.*", b"o.{{splitfromleft(1,2)}}", b"in.a--b-.x", b"o.a-.-b-"),
    (b"in.*.*", b"o.{{SplitFromRight(1,2)}}", b"in.a.b", b"o.a"),
    (b"in.*.*", b"o.{{SplitFromRight(1,2)}}", b"in.abcdef.x", b"o.abcd.ef"),
    (b"in.*.*", b"o.{{SplitFromRight(1,2)}}", b"in.-a-b.x", b"o.-a.-b"),
    (b"in.*.*", b"o.{{SplitFromRight(1,2)}}", b"in.--a.x", b"o.-.-a"),
    (b"in.*.*", b"o.{{SplitFromRight(1,2)}}", b"in.a--b-.x", b"o.a--.b-"),
    (b"in.*.*", b"o.{{slicefromleft(1,2)}}", b"in.a.b", b"o.a"),
    (b"in.*.*", b"o.{{slicefromleft(1,2)}}", b"in.abcdef.x", b"o.ab.cd.ef"),
    (b"in.*.*", b"o.{{slicefromleft(1,2)}}", b"in.-a-b.x", b"o.-a.-b"),
    (b"in.*.*", b"o.{{slicefromleft(1,2)}}", b"in.--a.x", b"o.--.a"),
    (b"in.*.*", b"o.{{slicefromleft(1,2)}}", b"in.a--b-.x", b"o.a-.-b.-"),
    (b"in.*.*", b"o.{{sliceFromRight(1,4)}}", b"in.a.b", b"o.a"),
    (b"in.*.*", b"o.{{sliceFromRight(1,4)}}", b"in.abcdef.x", b"o.ab.cdef"),
    (b"in.*.*", b"o.{{sliceFromRight(1,4)}}", b"in.-a-b.x", b"o.-a-b"),
    (b"in.*.*", b"o.{{sliceFromRight(1,4)}}", b"in.--a.x", b"o.--a"),
    (b"in.*.*", b"o.{{sliceFromRight(1,4)}}", b"in.a--b-.x", b"o.a.--b-"),
    (b"in.*.*", b"o.{{left(1,2)}}", b"in.a.b", b"o.a"),
    (b"in.*.*", b"o.{{left(1,2)}}", b"in.abcdef.x", b"o.ab"),
    (b"in.*.*", b"o.{{left(1,2)}}", b"in.-a-b.x", b"o.-a"),
    (b"in.*.*", b"o.{{left(1,2)}}", b"in.--a.x", b"o.--"),
    (b"in.*.*", b"o.{{left(1,2)}}", b"in.a--b-.x", b"o.a-"),
    (b"in.*.*", b"o.{{right(1,2)}}", b"in.a.b", b"o.a"),
    (b"in.*.*", b"o.{{right(1,2)}}", b"in.abcdef.x", b"o.ef"),
    (b"in.*.*", b"o.{{right(1,2)}}", b"in.-a-b.x", b"o.-b"),
    (b"in.*.*", b"o.{{right(1,2)}}", b"in.--a.x", b"o.-a"),
    (b"in.*.*", b"o.{{right(1,2)}}", b"in.a--b-.x", b"o.b-"),
    (b"in.*.*", b"o.{{splitfromleft(1,0)}}", b"in.a.b", b"o.a"),
    (b"in.*.*", b"o.{{splitfromleft(1,0)}}", b"in.abcdef.x", b"o.abcdef"),
    (b"in.*.*", b"o.{{splitfromleft(1,0)}}", b"in.-a-b.x", b"o.-a-b"),
    (b"in.*.*", b"o.{{splitfromleft(1,0)}}", b"in.--a.x", b"o.--a"),
    (b"in.*.*", b"o.{{splitfromleft(1,0)}}", b"in.a--b-.x", b"o.a--b-"),
    (b"in.*.*", b"o.{{splitfromleft(1,-1)}}", b"in.a.b", b"o.a"),
    (b"in.*.*", b"o.{{splitfromleft(1,-1)}}", b"in.abcdef.x", b"o.abcdef"),
    (b"in.*.*", b"o.{{splitfromleft(1,-1)}}", b"in.-a-b.x", b"o.-a-b"),
    (b"in.*.*", b"o.{{splitfromleft(1,-1)}}", b"in.--a.x", b"o.--a"),
    (b"in.*.*", b"o.{{splitfromleft(1,-1)}}", b"in.a--b-.x", b"o.a--b-"),
    (b"in.a.b", b"o.x", b"in.a", None),
    (b"in.a.b", b"o.{{partition(5,3)}}", b"in.a", None),
    (b">", b"in.>", b"in.a.b", b"in.in.a.b"),
    (b"", b"pre.>", b"in.a.b", b"pre.in.a.b"),
    (b"in.>", b">", b"in.a.b", b"a.b"),
    (b"in.*", b"o", b"in.a", b"o"),
    (b"in.*", b"", b"in.a", None),
    (b"in.*", b"o.{{}}", b"in.a", b"o.{{}}"),
    (b"in.*", b"o.{{split(1, a)}}", b"in.a", b"o."),
    (b"in.*", b"o.{{random(1)}}", b"in.a", b"o.0"),
    (b"in.*", b"o.{{random(0)}}", b"in.a", b"o.0"),
    (b"in.*", b"o.a{{wildcard(1)}}", b"in.a", b"o.a{{wildcard(1)}}"),
    (b"in.*", b"o.$x", b"in.a", b"o.$x"),
    (b"in.*", b"o.$", b"in.a", b"o.$"),
    (b"in.*", b"$+1", b"in.a", b"a"),
    (b"in.*", b"{{wildcard(+1)}}", b"in.a", b"a"),
    (b"in.*", b"$99999999999999999999", b"in.a", b"$99999999999999999999"),
    (b"in.*", b"o.{{\twildcard\t(1)\t}}", b"in.a", b"o.a"),
]

# Source, destination, and the reason and place with which a stream with this transform was refused.
REFUSED = [
    (b"in.*.*", b"o.$3", RANGE, "$3: [3]"),
    (b"in.>", b"{{partition(5,1)}}.>", RANGE, "{{partition(5,1)}}: [1]"),
    (b"in.a.b", b"o.{{wildcard(1)}}", RANGE, "{{wildcard(1)}}"),
    (b"in.a.b", b"o.$1", RANGE, "$1"),
    (b"in.*.*", b"o.*", SUBJECT, None),
    (b"in.*", b"o.>", SUBJECT, None),
    (b"in.>", b"o", SUBJECT, None),
    (b"in.*", b"o.{{wildcard()}}", FEW, "{{wildcard()}}"),
    (b"in.*", b"o.{{wildcard( )}}", WRONG, "{{wildcard( )}}"),
    (b"in.*", b"o.{{wildcard(1,2)}}", MANY, "{{wildcard(1,2)}}"),
    (b"in.*", b"o.{{wildcard(x)}}", WRONG, "{{wildcard(x)}}"),
    (b"in.*", b"o.{{foo(1)}}", UNKNOWN, "{{foo(1)}}"),
    (b"in.*", b"o.{{partition()}}", WRONG, "{{partition()}}"),
    (b"in.*", b"o.{{partition(2147483648,1)}}", WRONG, "{{partition(2147483648,1)}}"),
    (b"in.*", b"o.{{partition(2,2)}}", RANGE, "{{partition(2,2)}}: [2]"),
    (b"in.*", b"o.{{partition(2,1,x)}}", WRONG, "{{partition(2,1,x)}}"),
    (b"in.*", b"o.{{split(1)}}", FEW, "{{split(1)}}"),
    (b"in.*", b"o.{{split(1,a,b)}}", MANY, "{{split(1,a,b)}}"),
    (b"in.*", b"o.{{split(1,a b)}}", WRONG, "{{split(1,a b)}}"),
    (b"in.*", b"o.{{splitfromleft(1)}}", FEW, "{{splitfromleft(1)}}"),
    (b"in.*", b"o.{{splitfromleft(1,2,3)}}", MANY, "{{splitfromleft(1,2,3)}}"),
    (b"in.*", b"o.{{splitfromleft(1,2147483648)}}", WRONG, "{{splitfromleft(1,2147483648)}}"),
    (b"in.*", b"o.{{splitfromleft(a,2)}}", WRONG, "{{splitfromleft(a,2)}}"),
    (b"in.*", b"o.{{random()}}", WRONG, "{{random()}}"),
    (b"in.*", b"o.{{random(1,2)}}", FEW, "{{random(1,2)}}"),
    (b"in.*", b"o. x", INVALID, None),
    (b"in.*", b"o..x", INVALID, None),
    (b"in.>", b"o.>.x", INVALID, "x"),
    (b"in.*", b"o.{{wildcard(1)}}{{wildcard(1)}}", WRONG, "{{wildcard(1)}}{{wildcard(1)}}"),
    (b"in.*", b"{{wildcard(99999999999999999999)}}", WRONG, "{{wildcard(99999999999999999999)}}"),
    (b"in.*", b"x y", INVALID, None),
]


def rng() -> SeededEntropy:
    return SeededEntropy(labelled_rng(1, "transform"))


@pytest.mark.parametrize(("source", "destination", "subject", "stored"), APPLIED)
def test_a_subject_becomes_what_nats_server_stores(
    source: bytes, destination: bytes, subject: bytes, stored: bytes | None
) -> None:
    validate_mapping(source, destination)
    assert SubjectTransform.parse(source, destination).apply(subject, rng()) == stored


@pytest.mark.parametrize(("source", "destination", "reason", "place"), REFUSED)
def test_a_rule_is_refused_with_the_text_of_nats_server(
    source: bytes, destination: bytes, reason: str, place: str | None
) -> None:
    with pytest.raises(TransformError) as refused:
        validate_mapping(source, destination)
    assert refused.value.reply == (reason if place is None else f"{reason} in {place}")


@pytest.mark.parametrize("source", [b"in.*", b"in.a"])
@pytest.mark.parametrize("character", [b" ", b"\t", b"\r", b"\n"])
@pytest.mark.parametrize("token", [b"%b", b"x%by", b"%bx", b"$1%b", b"{{x}}%b"])
def test_no_rule_makes_more_than_one_word(source: bytes, token: bytes, character: bytes) -> None:
    destination = b"out." + token % character
    for read in (SubjectTransform.parse, validate_mapping):
        with pytest.raises(TransformError):
            read(source, destination)


@pytest.mark.parametrize("character", [b"\0", b"\x0b", b"\x1b", b"\x7f"])
def test_a_configuration_has_no_control_character_in_a_destination(character: bytes) -> None:
    destination = b"out.x" + character
    with pytest.raises(TransformError):
        validate_mapping(b"in.*", destination)
    with pytest.raises(TransformError):
        check_characters(destination)
    # A rule that an older version stored is carried out: it breaks no frame.
    assert SubjectTransform.parse(b"in.*", destination).apply(b"in.a") == destination


def test_a_call_may_be_written_with_blanks() -> None:
    check_characters(b"out.{{ partition(3, 1) }}")
    assert SubjectTransform.parse(b"in.*", b"out.{{ wildcard( 1 ) }}").apply(b"in.a") == b"out.a"


def test_a_rule_without_destination_is_about_nothing() -> None:
    validate_mapping(b"in.*", b"")
    assert SubjectTransform.parse(b"in.*", b"").apply(b"in.a") is None


@pytest.mark.parametrize("subject", [b"in..a", b"in.*", b"in.>", b"in.", b""])
def test_a_rule_is_about_literal_subjects_only(subject: bytes) -> None:
    assert SubjectTransform.parse(b">", b"o.>").apply(subject) is None
    assert SubjectTransform.parse(b">", b">").apply(subject) == subject


def test_random_stays_below_its_argument_and_takes_entropy() -> None:
    rule = SubjectTransform.parse(b"in.*", b"o.{{random(3)}}")
    throws = SeededEntropy(labelled_rng(2, "transform"))
    assert rule.is_random
    assert {rule.apply(b"in.a", throws) for _ in range(100)} == {b"o.0", b"o.1", b"o.2"}
    with pytest.raises(InvariantViolation):
        rule.apply(b"in.a")
    assert not SubjectTransform.parse(b"in.*", b"o.$1").is_random


def test_a_negative_size_of_random_counts_as_its_amount() -> None:
    rule = SubjectTransform.parse(b"in.*", b"o.{{random(-1)}}")
    assert rule.apply(b"in.a", rng()) == b"o.0"


tokens = st.text("ab-", min_size=1, max_size=7).map(str.encode)


@given(tokens, st.integers(-2, 9))
def test_slices_and_splits_lose_nothing(token: bytes, size: int) -> None:
    for name in ("splitFromLeft", "splitFromRight", "sliceFromLeft", "sliceFromRight"):
        rule = SubjectTransform.parse(b"*", b"{{%b(1,%d)}}" % (name.encode(), size))
        made = rule.apply(token)
        assert made is not None
        assert made.replace(b".", b"") == token
        assert b"" not in made.split(b".")
        if name.startswith("slice") and 0 < size < len(token):
            parts = made.split(b".")
            odd = parts.pop(-1 if name.endswith("Left") else 0)
            assert {len(part) for part in parts} <= {size}
            assert 0 < len(odd) <= size


@given(st.lists(tokens, min_size=1, max_size=4), st.data())
def test_wildcards_are_carried_over(parts: list[bytes], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(1, len(parts) + 1)))
    source = b".".join([b"*"] * len(parts))
    dollars = b".".join(b"$%d" % number for number in order)
    calls = b".".join(b"{{wildcard(%d)}}" % number for number in order)
    expected = b".".join(parts[number - 1] for number in order)
    for destination in (dollars, calls):
        assert SubjectTransform.parse(source, destination).apply(b".".join(parts)) == expected


words = st.sampled_from(
    [
        *(b"in", b"*", b">", b"$1", b"$", b"{{", b"}}", b"(", b")", b",", b".", b" ", b"-1", b"99"),
        *(
            b"wildcard",
            b"Partition",
            b"split",
            b"SliceFromLeft",
            b"left",
            b"random",
            b"\xff",
            b"\n",
        ),
    ]
)


@given(st.lists(words).map(b"".join), st.lists(words).map(b"".join), st.binary(max_size=20))
def test_any_rule_is_parsed_or_refused(source: bytes, destination: bytes, subject: bytes) -> None:
    try:
        rule = SubjectTransform.parse(source, destination)
    except TransformError:
        return
    rule.apply(subject, rng())
    rule.apply(source, rng())
