"""Check the wiring of a lab against its switches: their number of ports, and port sides."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from testbed.fabric.circuits import Fibres, Side, SwitchPort
from testbed.fabric.device import spans
from testbed.fabric.light import LightLimits
from testbed.plugins import kind
from testbed.schema.instruments import PowerUnit, Switch
from testbed.schema.source import Steps
from testbed.schema.text_types import MAX_PORT
from testbed.schema.validation import Problem

End = tuple[Steps, SwitchPort]
"""A switch port that a lab file names, and where: under `tx`, `rx` or `bidi` of a host's port."""


def side_problems(switches: Mapping[str, Switch], ends: Sequence[End]) -> Iterator[Problem]:
    """Yield ports that a switch does not have, and wiring in the wrong direction of light.

    Only the driver's description with the options in the file is used; no switch is queried.
    """
    of_switch: defaultdict[tuple[str, str | int], list[End]] = defaultdict(list)
    for end in ends:
        of_switch[end[1].switch, end[0][-1]].append(end)
    for name, switch in switches.items():
        entering, leaving, both = (of_switch[name, key] for key in _KEYS)
        yield from _bidi_problems(name, switch, both)
        if count := _one_side(switch):
            yield from _one_side_problems(name, switch, count)
            continue
        inputs, outputs = _counted(switch)
        if inputs and outputs:
            yield from _shape_problems(name, switch, inputs, outputs)
        if inputs:
            yield from _known_problems(name, switch, inputs, entering, leaving)
        elif kind("drivers", switch.driver).sides:
            yield from _order_problems(entering, leaving)
            last_input = max((end.number for _, end in entering), default=0)
            first_output = min((end.number for _, end in leaving), default=MAX_PORT + 1)
            hint = "inputs come before outputs; write it as {ingress: egress}"
            yield from _resting_side_problems(name, switch, last_input, first_output, hint)


def sides_of(switches: Mapping[str, Switch]) -> Callable[[Fibres], Side | None]:
    """Return what tells the side of a switch that a host port is on.

    It returns None where the side does not matter, or where the file does not tell it.
    """
    one_sided = {name for name, switch in switches.items() if has_one_side(switch)}
    inputs = {name: inputs_of(switch) for name, switch in switches.items()}

    def side_of(fibres: Fibres) -> Side | None:
        end = fibres.tx
        if end.switch in one_sided:
            return Side.ANY
        if not (inputs.get(end.switch) and fibres.is_bidi):
            return None
        return Side.INPUT if end.number <= inputs[end.switch] else Side.OUTPUT

    return side_of


def has_one_side(switch: Switch) -> bool:
    """Return whether a switch can connect any two of its ports, by its driver's options."""
    return _one_side(switch) > 0


def _one_side(switch: Switch) -> int:
    """Return how many ports a switch has that are all on one side; 0 where it has two sides."""
    count = kind("drivers", switch.driver).one_side
    return count(switch.options) if count else 0


def inputs_of(switch: Switch) -> int:
    """Return the number of inputs of a switch in the file; 0 where only the device knows it."""
    return 0 if has_one_side(switch) else _counted(switch)[0]


def _counted(switch: Switch) -> tuple[int, int]:
    """Return the numbers of inputs and outputs; 0 where the file does not tell."""
    count = kind("drivers", switch.driver).sides
    return count(switch.options) if count else (0, 0)


def has_port(switch: Switch, number: int) -> bool:
    """Return whether a switch may have a port with this number, by its driver's options."""
    inputs, outputs = _counted(switch)
    last = _one_side(switch) or (inputs + outputs if inputs and outputs else number)
    return number <= last


def has_outlet(unit: PowerUnit, outlet: str) -> bool:
    """Return whether a power unit may have an outlet with this name, by its options."""
    count = kind("drivers", unit.driver).outlets
    last = count(unit.options) if count else 0
    return not last or outlet in map(str, range(1, last + 1))


_KEYS = ("tx", "rx", "bidi")


def _bidi_problems(name: str, switch: Switch, both: Sequence[End]) -> Iterator[Problem]:
    """Find ports for both directions where light goes one way, or on a side that is not known."""
    known, one_side = kind("drivers", switch.driver), has_one_side(switch)
    for steps, end in both:
        if not (known.reciprocal or one_side):
            message = f"{end} carries light one way only, as all ports of a {switch.driver} do"
            if known.one_side:
                message = f"{end} carries light one way only, by the options of {name}"
            yield Problem(steps, message, "give the port tx and rx, each a switch port of its own")
        elif known.sides and not (one_side or inputs_of(switch)):
            message = f"the file does not tell whether {end} is an input or an output"
            hint = f"write its size, as in switches.{name}.size: [16, 16], inputs and outputs"
            yield Problem(steps, message, hint)


def _one_side_problems(name: str, switch: Switch, count: int) -> Iterator[Problem]:
    what = f"a {switch.driver} with {count} ports on one side"
    yield from _beyond_problems(name, switch, count, what, f"its ports are {_span(1, count)}")
    for one, other in switch.safe.items():
        if one >= other:
            hint = f"write {{{other}: {one}}}" if one > other else ""
            steps = ("switches", name, "safe", str(one))
            yield Problem(steps, f"{one} is not below {other}: the lower port comes first", hint)


def _shape_problems(name: str, switch: Switch, inputs: int, outputs: int) -> Iterator[Problem]:
    last = inputs + outputs
    hint = f"its inputs are {_span(1, inputs)}, its outputs {_span(inputs + 1, last)}"
    yield from _beyond_problems(name, switch, last, f"a {inputs}×{outputs} {switch.driver}", hint)


def _beyond_problems(
    name: str, switch: Switch, last: int, what: str, hint: str
) -> Iterator[Problem]:
    for key in ("ports", "protected"):
        if beyond := sorted(number for number in getattr(switch, key) if number > last):
            message = f"{what} has no port {spans(beyond)}"
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
    yield from _resting_side_problems(name, switch, inputs, inputs + 1, sides)


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
            message = f"light enters at {end}, a higher port than {first}, where light leaves"
            hint = f"inputs come before outputs; see {'.'.join(map(str, first_steps))}"
            yield Problem(steps, message, hint)


def _resting_side_problems(
    name: str, switch: Switch, last_input: int, first_output: int, hint: str
) -> Iterator[Problem]:
    """Compare where light rests with the inputs and outputs that are known, and with itself."""
    for ingress, egress in switch.safe.items():
        if ingress >= min(egress, first_output) or egress <= last_input:
            steps = ("switches", name, "safe", str(ingress))
            message = f"{ingress} must be an input and {egress} an output with a higher number"
            yield Problem(steps, message, hint)


def light_kept_problems(switches: Mapping[str, Switch], ends: Sequence[End]) -> Iterator[Problem]:
    """Yield ports that the file wants to stay lit, or to be parked, but that cannot be."""
    inwards = {end for steps, end in ends if steps[-1] == "tx"}
    for name, switch in switches.items():
        steps: Steps = ("switches", name, "keep_alive")
        for number in sorted(switch.keep_alive - switch.usable):
            hint = f"only usable ports can lose light; see switches.{name}.ports and .protected"
            yield Problem(steps, f"port {number} is protected or not in `ports`", hint)
        for number in sorted(switch.keep_alive):
            if SwitchPort(name, number) in inwards:
                hint = "name the port that the light leaves by"
                yield Problem(steps, f"light only enters the switch at port {number}", hint)
        yield from _safe_problems(name, switch)


def _safe_problems(name: str, switch: Switch) -> Iterator[Problem]:
    uses, usable = Counter(switch.safe.values()), switch.usable
    for ingress, egress in switch.safe.items():
        steps: Steps = ("switches", name, "safe", str(ingress))
        for number in sorted({ingress, egress} - usable):
            hint = f"see switches.{name}.ports and .protected"
            yield Problem(steps, f"port {number} is protected or not in `ports`", hint)
        if egress in switch.safe or uses[egress] > 1:
            message = f"port {egress} is in two cross-connects of `safe`"
            yield Problem(steps, message, "list each port once")


def resting_problems(limits: Mapping[str, LightLimits]) -> Iterator[Problem]:
    """Yield parking circuits that give a receiver with a limit too much or unknown light."""
    for name, light in limits.items():
        for ingress, egress in light.beams(light.safe):
            most, sent = light.max_dbm[egress], light.launch.get(ingress)
            if sent is None or sent > most:
                sends = "has no `launch`" if sent is None else f"sends {sent:g} dBm"
                limit = f"the receiver at {name}.{egress} withstands {most:g} dBm"
                message = f"{limit}, and the source at {name}.{ingress} {sends}"
                hint = f"connect {ingress} to another port in `safe`"
                if sent is None:
                    hint = f"write `launch` at the source, or {hint}"
                first = ingress if light.safe.get(ingress) == egress else egress
                yield Problem(("switches", name, "safe", str(first)), message, hint)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
