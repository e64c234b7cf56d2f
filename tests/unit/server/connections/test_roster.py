"""The connections of a server and their ids."""

from headwater.server.connections.roster import Roster


def test_no_id_is_given_twice() -> None:
    roster = Roster(closed_max=0)
    assert [roster.next_cid() for _ in range(3)] == [1, 2, 3]
