"""Messages that a stream publishes or removes when their time has come."""
