"""Pages on a terminal, made with rich, in which nothing that is shown is obeyed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table

from testbed.printable import printable, unfiltered


def plain_table(*headings: str, right: Collection[str] = ()) -> Table:
    """Return an empty table without lines, which is folded where the terminal is narrow.

    The columns of the headings in `right` are aligned to the right.
    """
    columns = (
        Column(name, justify="right" if name in right else "left", overflow="fold")
        for name in headings
    )
    return Table(*columns, box=None, pad_edge=False)


class CleanConsole(Console):
    """Print pages whose text comes from files and hosts: none of it is markup, or for a terminal.

    What rich itself says to the terminal, colours and where to write, is all that it obeys.
    """

    def __init__(self, stream: TextIO) -> None:
        # The command's streams clean what is printed to them; of this, only the text needs it.
        super().__init__(file=unfiltered(stream), markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the pieces of something, with their text made harmless."""
        for piece in super().render(renderable, options):
            if piece.control:
                yield piece
            else:
                yield Segment(printable(piece.text, kept="\n"), piece.style)
