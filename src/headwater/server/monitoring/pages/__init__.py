"""View models of one server: the documents that monitoring and the system services show.

Each module is one document (`varz`, `connz`, ...): a struct whose fields have nats-server's names,
order and omission rules, and a function that fills it from `Facts`. Nothing here changes a server,
and nothing here knows whether a document was asked for over HTTP or by a message.
"""
