"""The program in docs/howto/test-with-a-cluster.md runs."""

import re
from pathlib import Path
from typing import Any, Final

GUIDE: Final = Path(__file__).resolve().parents[2] / "docs" / "howto" / "test-with-a-cluster.md"


def test_the_program_of_the_guide_passes() -> None:
    [program] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, str(GUIDE), "exec"), names)
    assert names["test_orders_arrive_after_a_cut"]() is None
