"""Folders of streams have names that any file system takes, and tell the stream's name."""

import pytest

from headwater.store.disk.layout import LONG_NAME_MARK, folder_name, name_of_folder


@pytest.mark.parametrize("name", ["plain", "A.B", "$G/orders", "ü ☃", "%41", "a/../b", "."])
def test_any_name_has_a_folder_of_its_own(name: str) -> None:
    folder = folder_name(name)
    assert "/" not in folder
    assert "." not in folder
    assert name_of_folder(folder) == name


def test_a_name_that_does_not_fit_is_marked_and_told_from_others_by_a_digest() -> None:
    folders = [folder_name("n" * 256), folder_name("n" * 257)]
    assert len({*folders}) == 2
    assert all(len(folder) == 255 and LONG_NAME_MARK in folder for folder in folders)


def test_no_name_that_fits_has_the_mark_of_a_long_one() -> None:
    assert LONG_NAME_MARK not in folder_name("%~" * 42)
