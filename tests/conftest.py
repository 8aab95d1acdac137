"""What holds for all tests."""

from hypothesis import settings

settings.register_profile("without seconds", deadline=None)
settings.load_profile("without seconds")
"""How long a test may take depends on what else the machine does: `--timeout` alone limits it."""
