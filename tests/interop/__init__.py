"""Headwater beside nats-server: one script runs against both, all a client can see is compared.

The path of a case:

    cases/*.py      a script with a rule id; its docstring states the rule
    session.py      the actions of a script: dial, speak, ask over HTTP, signal, start processes
    differential.py runs the script on both servers
    observation.py  compares the two trees; masks.py lists what may differ, each with a predicate

Nothing here imports the server under test: it is reached as a client reaches it, by its process,
its sockets and its files.
"""
