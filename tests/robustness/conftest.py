"""Shadow replicas of the streams that servers run in the process of a test of this folder."""

from tests.kit.shadow_fixture import shadows

__all__ = ["shadows"]
