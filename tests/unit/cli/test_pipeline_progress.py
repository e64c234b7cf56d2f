"""The lines of jobs at work: what a job reports is what a person sees."""

import threading
from io import StringIO

import pytest
from rich.console import Console

from headwater.cli.pipeline_progress import JobProgress, StopRequested, new_screen


def test_a_line_shows_how_much_is_done_and_the_last_note() -> None:
    drawn = StringIO()
    screen = new_screen(Console(file=drawn, force_terminal=True, width=120))
    progress = JobProgress("orders", screen, threading.Event())
    progress.stage("archive", 50_000)
    progress.advance(12_000)
    progress.note("lag 38,001")
    progress.note("lag 38,000")
    screen.console.print(screen.get_renderable())
    assert "orders: archive" in drawn.getvalue()
    assert "12,000/50,000" in drawn.getvalue()
    assert "lag 38,000" in drawn.getvalue()
    assert "lag 38,001" not in drawn.getvalue()


def test_a_report_ends_a_job_that_is_cut_off() -> None:
    cutting_off = threading.Event()
    progress = JobProgress("orders", None, cutting_off)
    progress.note("lag 1")
    cutting_off.set()
    with pytest.raises(StopRequested):
        progress.note("lag 0")
