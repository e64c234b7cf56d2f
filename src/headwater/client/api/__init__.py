"""The JetStream API as values: requests to send and answers to read, whichever way they travel.

The blocking link and the command line's asyncio connection send the same requests and read their
answers by the same rules. Must not know: sockets, event loops, threads, files.
"""
