"""The jobs `rails-model` and `rails-cost`: an iteration of training on rails, and their price."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.jobs.rails_descriptors import RailsCostOptions, RailsModelOptions
from testbed.rails.cost import Prices, totals
from testbed.rails.hybrid import Hybrid, hybrid, ring_all_reduce
from testbed.rails.profile import ControlCost
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.stalls import formula


class RailsModel:
    """One iteration with a delay of the switch, beside the same one without."""

    def __init__(self, options: RailsModelOptions) -> None:
        self._options = options

    def values(self, seed: int = 0) -> Mapping[str, float]:
        """Return the metrics; the smallest window is left out where nothing changes."""
        options = self._options
        pp, dp = (options.mesh.get(name, 1) for name in ("pp", "dp"))
        job = Hybrid(
            pp,
            dp,
            options.micro_batches,
            options.forward,
            options.backward,
            transfer=options.activations * 8 / options.rate,
            all_reduce=ring_all_reduce(dp, options.gradients, options.rate),
            order=options.order,
            update=options.update,
        )
        workload = hybrid(job, ControlCost(change=options.control))
        rails = Rails(options.delay, options.mode, one_at_a_time=options.one_at_a_time)
        still, found = replay(workload, Rails()), replay(workload, rails)
        windows = {f"{c.stage}": c.window for c in still.changes}
        return {
            "iteration_time": found.iteration,
            "stall": found.iteration - still.iteration,
            "stall_formula": formula(still.changes, options.delay, options.mode),
            "slowdown": found.iteration / still.iteration,
            "rail_changes": len(found.changes),
            **({"smallest_window": min(windows.values())} if windows else {}),
        }


class RailsCost:
    """Packet switches over circuit switches, in watts and in US dollars."""

    def __init__(self, options: RailsCostOptions) -> None:
        self._options = options

    def values(self, seed: int = 0) -> Mapping[str, float]:
        """Return the ratios."""
        own = self._options
        watts = Prices(own.transceiver_power, own.packet_port_power, own.circuit_port_power)
        dollars = Prices(own.transceiver_cost, own.packet_port_cost, own.circuit_port_cost)
        found = {}
        for name, prices in (("power_ratio", watts), ("cost_ratio", dollars)):
            packet, circuit = totals(own.gpus // own.gpus_per_server, own.gpus_per_server, prices)
            found[name] = packet / circuit
        return found
