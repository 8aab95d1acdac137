"""The `testbed` command: each command parses its arguments, calls the library and prints.

The only package that chooses a backend: hardware, or a twin that it starts or joins.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress

from testbed.cli.exit_on_signal import end, end_on_signals, explain_signal_exit
from testbed.cli.standard_streams import open_streams
from testbed.errors import EXIT_BUG, EXIT_USAGE, TestbedError
from testbed.secret import masked


def main() -> None:
    """Run the command line and exit with its documented code; user errors give no traceback."""
    # A start makes few cycles, and looking for them every 700 objects takes a twentieth of it.
    gc.set_threshold(50_000, 20, 20)
    code: object = EXIT_BUG
    left: SystemExit | None = None
    try:
        try:
            end_on_signals()
            open_streams()
            code = run(sys.argv[1:])
        except SystemExit as early:
            code, left = early.code, early  # no call: a second signal must not come before it
        end(code, left)
    except SystemExit:  # a second signal, at the very moment of the first
        end(code, left)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    with explain_signal_exit(lambda: ["nothing was opened or changed"]):
        import typer

        from testbed.cli.app import command_line, with_bare_options
    from testbed.cli.completion import COMPLETE_VARIABLE

    if COMPLETE_VARIABLE in os.environ:
        return _complete(command_line())
    try:
        with _where_typed():
            code = command_line()(with_bare_options(arguments), standalone_mode=False)
    except typer.TyperException as error:
        print(_misuse(error.format_message()), file=sys.stderr)
        return EXIT_USAGE
    except TestbedError as error:
        for one in (error, *getattr(error, "others", ())):
            print(f"testbed: {masked(str(one))}", file=sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception:
        traceback.print_exc()
        print("testbed: this is a bug; please report it with the lines above", file=sys.stderr)
        return EXIT_BUG
    return code if isinstance(code, int) else 0


def _complete(line: Callable[..., object]) -> int:
    """Answer a shell's request for completions; print nothing on any error."""
    with suppress(Exception, SystemExit), redirect_stderr(io.StringIO()):
        line([], prog_name="testbed", standalone_mode=False)
    return 0


@contextmanager
def _where_typed() -> Iterator[None]:
    """Make hints use the lab, twin and results options as the user typed them."""
    from testbed.cli.file_lookup import COMMAND_VARIABLE, LAB_VARIABLE
    from testbed.commands import clear_context, set_context

    if COMMAND_VARIABLE in os.environ:
        from testbed.twin import NEW_TWIN
        from testbed.twin.control_socket import is_up
        from testbed.twin.machine import TWIN_VARIABLE

        if name := os.environ.get(TWIN_VARIABLE):
            set_context(is_up, twin=name if LAB_VARIABLE in os.environ else NEW_TWIN)
    try:
        yield
    finally:
        clear_context()


def _misuse(problem: str) -> str:
    """Describe a misused command line; a command without arguments prints its help."""
    if problem.startswith("Usage:"):
        return problem
    sentence = problem.replace("Value error, ", "").rstrip(".")
    hint = "" if sentence.endswith("?") else "; --help says what it takes"
    return f"testbed: {sentence}{hint}"
