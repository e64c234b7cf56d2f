"""Random bytes of the operating system."""

from headwater.runtime.entropy import SystemEntropy


def test_as_many_bytes_as_asked_for_and_never_the_same() -> None:
    entropy = SystemEntropy()
    assert [len(entropy.random_bytes(count)) for count in (0, 1, 32)] == [0, 1, 32]
    assert entropy.random_bytes(16) != entropy.random_bytes(16)


def test_every_number_below_the_limit_comes_up_and_no_other() -> None:
    entropy = SystemEntropy()
    assert {entropy.below(4) for _ in range(1000)} == {0, 1, 2, 3}
    assert entropy.below(1) == 0


def test_two_sources_differ() -> None:
    one, other = SystemEntropy(), SystemEntropy()
    assert [one.below(1 << 60) for _ in range(2)] != [other.below(1 << 60) for _ in range(2)]
