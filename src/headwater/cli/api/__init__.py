"""The JetStream API as commands call it, and the frame of the commands that do."""
