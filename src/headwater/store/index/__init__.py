"""The index of a log, in memory: where each message is, and which messages match.

log_index       the index itself: segments, subjects and totals
segment_index   the columns of one segment: offset, time, subject and size of each message
subject_table   names and ids of subjects; first, last and count of each
subject_order   subjects sorted by name: which subjects match a pattern
block_counts    messages per subject in blocks of a segment, so that counting skips blocks
subject_filter  which messages match some patterns: the next, the last, how many; shared
filter_cursor   the position of one reader in a filter: the next messages, how many are pending
walks           walks over all messages of a filter that take many turns
index_snapshot  the index as it was at one moment, for a checkpoint that is written meanwhile
expiry          messages that expire, by time
ranges          sets of sequences as ranges
sorted_page     one page of a sorted list, without sorting all of it
"""
