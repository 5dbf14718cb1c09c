"""For tests: `from verbatim_lm.testing import snapshot`."""

from .pytest_plugin import Answer, snapshot

__all__ = ["Answer", "snapshot"]
