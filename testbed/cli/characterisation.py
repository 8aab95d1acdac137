"""The commands `twin probe` and `twin replay`, by which a twin is compared with a real switch."""

from __future__ import annotations

import sys
from json import JSONDecodeError
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.app import (
    RESULTS,
    JsonOption,
    LabOption,
    ResultsOption,
    SetOption,
    TwinOption,
    argument,
    print_json,
)
from testbed.cli.completion import switches
from testbed.cli.lease_stores import leases_of
from testbed.cli.twins import inside_twin, named_lab, twin_app
from testbed.commands import typed
from testbed.errors import EXIT_FAILED, EXIT_PASSED, FileError, UsageError
from testbed.fabric.card import Card
from testbed.files import parse_json, read_file
from testbed.plugins import nearest
from testbed.report.non_blocking_writer import PATIENCE, NonBlockingWriter
from testbed.schema import Lab
from testbed.schema.load import MAX_BYTES


@twin_app.command(epilog="Example: testbed twin probe ocs --lab rack --twin > ocs.card.json")
def probe(
    switch: Annotated[str, argument("SWITCH", "A switch of the lab.", switches)],
    lab: LabOption = "",
    ports: Annotated[
        str,
        typer.Option(metavar="I,J,E,F", help="Two ingress and two egress ports; spare ones else."),
    ] = "",
    twin: TwinOption = "",
    set_: SetOption = [],  # noqa: B006 - typer wants it so
    results: ResultsOption = RESULTS,
) -> int:
    """Probe the behaviour of a real switch or its twin on spare ports; print its card."""
    found, file = named_lab(lab, twin, set_)
    if switch not in found.switches:
        hint = nearest(switch, list(found.switches))
        raise UsageError(f"{switch!r} is not a switch of lab {found.lab}", hint=hint)
    if twin:
        return inside_twin(twin, found, file, set_)
    card = _probed(found, switch, _numbers(ports), results, set_)
    print_json(card.to_json())
    return EXIT_PASSED


def _probed(lab: Lab, switch: str, ports: list[int], results: Path, overrides: list[str]) -> Card:
    """Probe a switch and keep the record; say what to type where its ports are still lit."""
    from testbed.bench.manual_switch import open_manual_switch
    from testbed.cli.record import close_check, open_check
    from testbed.record.journal import has_pending_undo

    writer = NonBlockingWriter(sys.stderr)
    with open_manual_switch(lab, switch, leases_of(lab), force=False) as box:
        directory, log, facts = open_check(lab, results, "probe", overrides)
        try:
            label = facts["label"]
            card = box.probe(ports, label, directory, lambda text: writer.write(f"{text}\n"))
        finally:
            log.close()
            if has_pending_undo(directory.journal):
                writer.write(f"still lit; type: {typed('recover', str(directory.path))}\n")
            writer.flush(PATIENCE)
        directory.write_json("card.json", card.to_json())
        close_check(directory, facts, "passed", "the card is in card.json")
    return card


@twin_app.command(epilog="Example: testbed twin replay results/latest/wire/ocs.jsonl --lab rack")
def replay(
    transcript: Annotated[Path, typer.Argument(help="What was said to a switch, and its answers.")],
    lab: LabOption = "",
    set_: SetOption = [],  # noqa: B006 - typer wants it so
    json: JsonOption = False,
) -> int:
    """Replay a transcript of an instrument to its twin, and print how far the answers agree."""
    from testbed.record.transcript import read_transcript
    from testbed.twin.replay import replay_to_far_end

    found, _ = named_lab(lab, overrides=set_)
    rows = list(read_transcript(transcript))
    name = rows[0].instrument if rows else ""
    if name not in found.switches:
        raise UsageError(
            f"{transcript} records no exchange with a switch of lab {found.lab}",
            hint=f"its switches: {', '.join(found.switches) or 'none'}",
        )
    agreement = replay_to_far_end(found, name, rows)
    if json:
        print_json(agreement.to_json())
    else:
        for line in agreement.lines():
            print(line)
    return EXIT_PASSED if agreement.whole else EXIT_FAILED


def read_card(path: Path) -> Card:
    """Read the card in a file; raise FileError for any other file."""
    try:
        return Card.from_json(parse_json(read_file(path, MAX_BYTES, follow=True)))
    except JSONDecodeError as error:
        raise FileError(f"{path}:{error.lineno}:{error.colno}", f"not JSON: {error.msg}") from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="check its path"
        ) from None
    except ValueError as error:
        raise FileError(
            f"{path}:1:1", str(error), hint="make a card with the command twin probe"
        ) from None


def _numbers(text: str) -> list[int]:
    """Return the ports named with --ports: none, or two ingress and two egress ports."""
    parts = [part for part in text.split(",") if part]
    if len(parts) not in (0, 4) or not all(part.strip().isdecimal() for part in parts):
        raise UsageError(
            f"--ports {text!r}: give two ingress and two egress port numbers",
            hint="as in 5,6,21,22",
        )
    return [int(part) for part in parts]
