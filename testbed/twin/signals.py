"""The signals that end a command, in a small module that every command imports."""

import signal

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
"""The signals by which people and systems end a command."""

FORWARDED = ENDING | {signal.SIGQUIT}
"""The signals that are passed on to a command inside a twin."""
