"""Errors of files are worded as Go does."""

from headwater.go.file_errors import os_error_text


def test_errors_of_the_operating_system() -> None:
    missing = FileNotFoundError(2, "No such file or directory")
    assert os_error_text(missing, "a") == "open a: no such file or directory"
    assert os_error_text(IsADirectoryError(21, "Is a directory"), "a") == "read a: is a directory"
    assert os_error_text(OSError(), "a") == "open a: input/output error"
