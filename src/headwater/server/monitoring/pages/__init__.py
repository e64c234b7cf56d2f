"""View models of one server: what monitoring and the system services show of a Node.

Each module is one document (`varz`, `connz`, ...): a struct whose fields have nats-server's names,
order and omission rules, and a function that fills it from a Node. Nothing here changes a Node, and
nothing here knows whether it was asked over HTTP or by a message.
"""
