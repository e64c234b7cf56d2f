"""Hypothesis profiles for every test below.

`HYPOTHESIS_PROFILE=explore pytest tests/properties` looks for new counterexamples; the default
profile replays the same examples every time, so that a green tree stays green until it changes.
"""

import os

from hypothesis import settings

# No deadlines anywhere: how fast an example ran says more about the machine than about the code.
settings.register_profile("default", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
