"""Findings are kept in the order in which they were made, and read as text."""

from headwater.store.disk.findings import Findings


def test_findings_keep_their_order_and_read_as_kind_and_detail() -> None:
    findings = Findings()
    findings.add("torn", "journal: 3 bytes behind the last entry")
    findings.add("lost", "sequences 4 to 9")
    assert [repr(finding) for finding in findings.reported] == [
        "torn: journal: 3 bytes behind the last entry",
        "lost: sequences 4 to 9",
    ]
