"""The public test kit: a simulated world in which real servers and real clients run."""
