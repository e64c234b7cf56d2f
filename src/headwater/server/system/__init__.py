"""The system account: events that it hears, services that it may ask."""
