"""Terminal pages made with rich, in which control characters of the contents have no effect."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table

from testbed.printable import printable, unfiltered


def plain_table(*headings: str, right: Collection[str] = ()) -> Table:
    """Return an empty table without lines, whose cells wrap on a narrow terminal.

    The columns of the headings in `right` are aligned to the right.
    """
    columns = (
        Column(name, justify="right" if name in right else "left", overflow="fold")
        for name in headings
    )
    return Table(*columns, box=None, pad_edge=False)


class CleanConsole(Console):
    """Prints pages with text from files and hosts, without markup and control characters.

    Only rich's own control sequences, such as colours, reach the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        # The command's streams clean what is printed to them; of this, only the text needs it.
        super().__init__(file=unfiltered(stream), markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a renderable, with control characters in their text escaped."""
        for piece in super().render(renderable, options):
            if piece.control:
                yield piece
            else:
                yield Segment(printable(piece.text, kept="\n"), piece.style)
