"""Errors of the operating system as Go's `os` package words them."""


def os_error_text(error: OSError, path: str) -> str:
    """The text of an error of opening or reading a file."""
    reason = (error.strerror or "input/output error").lower()
    verb = "read" if isinstance(error, IsADirectoryError) else "open"
    return f"{verb} {path}: {reason}"
