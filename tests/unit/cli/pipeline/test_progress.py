"""The lines of jobs at work: a person sees the figures that a job reports."""

import threading
from io import StringIO

import pytest
from rich.console import Console

from headwater.cli.pipeline.progress import (
    CountColumn,
    JobProgress,
    StopRequested,
    WorkBar,
    new_screen,
)


def test_a_line_shows_how_much_is_done_and_the_last_note() -> None:
    drawn = StringIO()
    screen = new_screen(Console(file=drawn, force_terminal=True, width=120))
    progress = JobProgress("orders", screen, threading.Event(), threading.Event())
    progress.stage("archive", 50_000)
    progress.advance(12_000)
    progress.note("lag 38,001")
    progress.note("lag 38,000")
    screen.console.print(screen.get_renderable())
    assert "orders: archive" in drawn.getvalue()
    assert "12,000/50,000" in drawn.getvalue()
    assert "lag 38,000" in drawn.getvalue()
    assert "lag 38,001" not in drawn.getvalue()


@pytest.mark.parametrize("total", [None, 50_000], ids=["no total", "a total"])
def test_the_bar_moves_while_there_is_nothing_to_count_yet(total: int | None) -> None:
    """Spark starts, and its first batch, take long; a bar that stands still looks like a hang."""
    now_s = 0.0
    screen = new_screen(Console(file=StringIO(), force_terminal=True, width=120))
    screen.get_time = lambda: now_s
    progress = JobProgress("orders", screen, threading.Event(), threading.Event())
    progress.stage("archive", total)

    def bar() -> str:
        drawn = StringIO()
        console = Console(file=drawn, force_terminal=True, width=120, color_system="truecolor")
        (task,) = screen.tasks
        console.print(WorkBar(bar_width=24).render(task))
        return drawn.getvalue()

    first = bar()
    now_s = 0.1
    assert bar() != first
    progress.advance(25_000)
    counted = bar()
    now_s = 0.2
    assert (bar() == counted) == (total is not None)


def test_what_has_no_count_yet_shows_none() -> None:
    screen = new_screen(Console(file=StringIO(), force_terminal=True, width=120))
    task = screen.add_task("Starting Spark", total=None, note="")
    assert CountColumn().render(screen.tasks[task]).plain == ""
    screen.advance(task, 12_000)
    assert CountColumn().render(screen.tasks[task]).plain == "12,000"


def test_a_report_ends_a_job_that_is_cut_off() -> None:
    cutting_off = threading.Event()
    progress = JobProgress("orders", None, cutting_off, threading.Event())
    progress.note("lag 1")
    cutting_off.set()
    with pytest.raises(StopRequested):
        progress.note("lag 0")


def test_a_job_that_follows_waits_until_its_command_is_stopped() -> None:
    stopping = threading.Event()
    progress = JobProgress("orders", None, threading.Event(), stopping)
    assert progress.wait(0.001)
    stopping.set()
    assert not progress.wait(3600)
