"""Whether the wiring of a lab fits its switches: how many ports they have, and on which side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from testbed.fabric.circuits import SwitchPort
from testbed.fabric.light import LightLimits
from testbed.plugins import kind
from testbed.schema.check import Problem
from testbed.schema.instruments import PowerUnit, Switch
from testbed.schema.source import Steps
from testbed.schema.text import MAX_PORT

End = tuple[Steps, SwitchPort]
"""A switch port that a lab file names, and where: under `tx`, `rx` or `bidi` of a host's port."""


def side_problems(switches: Mapping[str, Switch], ends: Sequence[End]) -> Iterator[Problem]:
    """Find ports that a switch of this kind does not have, and light that cannot go that way.

    Only what the driver's description says by the options in the file is known; no switch is asked.
    """
    for name, switch in switches.items():
        count = kind("drivers", switch.driver).sides
        if count is None:
            continue
        inputs, outputs = count(switch.options)
        if inputs and outputs:
            yield from _shape_problems(name, switch, inputs, outputs)
        ours = [end for end in ends if end[1].switch == name]
        entering, leaving, both = ([e for e in ours if e[0][-1] == k] for k in _KEYS)
        for steps, end in both:
            message = f"{end} carries light one way only: {switch.driver} has inputs and outputs"
            yield Problem(steps, message, "give the port tx and rx, each a switch port of its own")
        if inputs:
            yield from _known_problems(name, switch, inputs, entering, leaving)
        else:
            yield from _order_problems(entering, leaving)
            yield from _resting_order_problems(name, switch, entering, leaving)


def has_port(switch: Switch, number: int) -> bool:
    """Tell whether a switch may have a port, as far as the driver's options in the file say."""
    count = kind("drivers", switch.driver).sides
    inputs, outputs = count(switch.options) if count else (0, 0)
    return not (inputs and outputs) or number <= inputs + outputs


def has_outlet(unit: PowerUnit, outlet: str) -> bool:
    """Tell whether a power unit may have an outlet, as far as its options in the file say."""
    count = kind("drivers", unit.driver).outlets
    last = count(unit.options) if count else 0
    return not last or outlet in map(str, range(1, last + 1))


_KEYS = ("tx", "rx", "bidi")


def _shape_problems(name: str, switch: Switch, inputs: int, outputs: int) -> Iterator[Problem]:
    last = inputs + outputs
    hint = f"its inputs are {_span(1, inputs)}, its outputs {_span(inputs + 1, last)}"
    for key in ("ports", "protected"):
        if beyond := sorted(number for number in getattr(switch, key) if number > last):
            message = f"a {inputs}×{outputs} {switch.driver} has no port {_listed(beyond)}"
            yield Problem(("switches", name, key), message, hint)


def _known_problems(
    name: str, switch: Switch, inputs: int, entering: list[End], leaving: list[End]
) -> Iterator[Problem]:
    """Compare each port with the number of inputs."""
    sides = f"the inputs of {name} are {_span(1, inputs)}"
    swapped = f"{sides}; are tx and rx swapped?"
    for steps, end in entering:
        if end.number > inputs:
            yield Problem(steps, f"light leaves the switch at {end} and cannot enter it", swapped)
    for steps, end in leaving:
        if end.number <= inputs:
            yield Problem(steps, f"light enters the switch at {end} and cannot leave it", swapped)
    for ingress, egress in switch.safe.items():
        if ingress > inputs or egress <= inputs:
            steps = ("switches", name, "safe", str(ingress))
            yield Problem(steps, f"no light goes from {ingress} to {egress}", sides)


def _order_problems(entering: list[End], leaving: list[End]) -> Iterator[Problem]:
    """Compare the ports of hosts with each other: every input is below every output."""
    received = {steps[:-1]: end for steps, end in leaving}
    pairs = [(steps, end, received.get(steps[:-1])) for steps, end in entering]
    swapped = [(steps, end, own) for steps, end, own in pairs if own and own.number < end.number]
    for steps, end, own in swapped:
        message = f"light enters the switch at {end} and leaves it at {own}, a lower port"
        yield Problem(steps, message, "inputs come before outputs; are tx and rx swapped?")
    if swapped or not leaving:
        return
    first_steps, first = min(leaving, key=lambda found: found[1].number)
    for steps, end in entering:
        if end.number >= first.number:
            message = f"light enters the switch at {end}, beyond {first} where it leaves"
            hint = f"inputs come before outputs; see {'.'.join(map(str, first_steps))}"
            yield Problem(steps, message, hint)


def _resting_order_problems(
    name: str, switch: Switch, entering: list[End], leaving: list[End]
) -> Iterator[Problem]:
    """Compare where light rests with itself and with the ports of hosts."""
    last_input = max((end.number for _, end in entering), default=0)
    first_output = min((end.number for _, end in leaving), default=MAX_PORT + 1)
    for ingress, egress in switch.safe.items():
        if ingress >= min(egress, first_output) or egress <= last_input:
            hint = "inputs come before outputs; write it as {ingress: egress}"
            steps = ("switches", name, "safe", str(ingress))
            yield Problem(steps, f"no light goes from {ingress} to {egress}", hint)


def light_kept_problems(switches: Mapping[str, Switch], ends: Sequence[End]) -> Iterator[Problem]:
    """Find ports that cannot keep their light, or rest, as the file says."""
    inwards = {end for steps, end in ends if steps[-1] == "tx"}
    for name, switch in switches.items():
        steps: Steps = ("switches", name, "keep_alive")
        for number in sorted(switch.keep_alive - switch.usable):
            hint = f"only ports that may be moved can lose their light: {name}.ports"
            yield Problem(steps, f"{number} is none of the ports that may be used", hint)
        for number in sorted(switch.keep_alive):
            if SwitchPort(name, number) in inwards:
                hint = "name the port that the light leaves by"
                yield Problem(steps, f"light only enters the switch at port {number}", hint)
        yield from _safe_problems(name, switch)


def _safe_problems(name: str, switch: Switch) -> Iterator[Problem]:
    for ingress, egress in switch.safe.items():
        steps: Steps = ("switches", name, "safe", str(ingress))
        for number in sorted({ingress, egress} - switch.usable):
            hint = f"see switches.{name}.ports and .protected"
            yield Problem(steps, f"{number} is none of the ports that may be used", hint)
        if egress in switch.safe or list(switch.safe.values()).count(egress) > 1:
            yield Problem(steps, f"port {egress} is in it twice", "a port has one place to rest")


def resting_problems(limits: Mapping[str, LightLimits]) -> Iterator[Problem]:
    """Find light that rests on a receiver with a limit although nobody says that it bears it."""
    for name, light in limits.items():
        for ingress, egress in light.limited(light.safe).items():
            most, sent = light.max_dbm[egress], light.launch.get(ingress)
            if sent is None or sent > most:
                sends = "does not say what it sends" if sent is None else f"sends {sent:g} dBm"
                message = f"{name}.{egress} bears {most:g} dBm, and the source of {ingress} {sends}"
                hint = "write `launch` at the source, or let its light rest elsewhere"
                yield Problem(("switches", name, "safe", str(ingress)), message, hint)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _listed(numbers: list[int]) -> str:
    """Return sorted numbers as ranges: `1-3, 7`."""
    runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    members = [[number for _, number in run] for _, run in runs]
    return ", ".join(_span(run[0], run[-1]) for run in members)
