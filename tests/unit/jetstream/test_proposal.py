"""A proposal answers those whose messages are stored, and refuses the others."""

from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Published, Purged, Record
from headwater.store.log.message_log import Batch


def test_replies_that_rest_on_messages_which_are_not_stored_are_refused() -> None:
    proposal: Proposal[Record] = Proposal()
    for sequence in (5, 6, 7):
        proposal.reply(b"to.%d" % sequence, b"ok", rests_on=sequence)
    proposal.refuse_after(5, b"refused")
    assert proposal.replies == [b"ok", b"refused", b"refused"]
    assert proposal.reply_subjects == [b"to.5", b"to.6", b"to.7"]


def test_all_replies_to_a_single_record_are_refused_with_it() -> None:
    proposal: Proposal[Record] = Proposal()
    proposal.reply_subjects, proposal.replies = [b"a", b"b"], [b"ok", b"ok"]
    proposal.republished = [(b"subject", b"", b"body")]
    proposal.refuse_after(0, b"refused")
    assert proposal.replies == [b"refused", b"refused"]
    assert proposal.republished == []


def test_only_records_that_assign_sequences_have_messages() -> None:
    published = Published(1, Batch([b"s"], [b""], [b""], [1]))
    assert Proposal([Purged(b">"), published]).has_messages
    assert not Proposal([Purged(b">")]).has_messages
