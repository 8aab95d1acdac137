"""The job `mesh-model`: route all matchings of hosts through a photonic mesh, on paper."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean

from testbed.fabric.mesh import Gate, Mesh, hexagonal
from testbed.fabric.mesh_exact import solve
from testbed.fabric.mesh_graph import Graph
from testbed.fabric.mesh_ports import Routed, choose_ports, demands, route_all
from testbed.fabric.mesh_switch import MeshSwitch
from testbed.jobs.mesh_descriptors import MeshModelOptions


class MeshModel:
    """Chooses ports for hosts, draws cells that do not move, and routes every matching."""

    def __init__(self, options: MeshModelOptions) -> None:
        self._options = options

    def values(self, seed: int) -> Mapping[str, float]:
        """Return the metrics; those of routes and of refusals only where there are any.

        Light is traced through every setting. Times are of the processor, in seconds.
        """
        own = self._options
        mesh = hexagonal(own.width, own.height)
        begun = time.process_time()
        chosen = choose_ports(mesh, own.ranks, own.ports, seed=seed, limit=own.searches)
        found = time.process_time()
        all_routed = [
            _traced(route_all(each, chosen.rim, own.ports)) for each in self._meshes(mesh, seed)
        ]
        took = (time.process_time() - found) / len(all_routed)
        return {
            "matchings_routed": fmean(each.count / len(each.matchings) for each in all_routed),
            "meshes_routed": fmean(each.is_whole for each in all_routed),
            **_lengths(all_routed),
            "search_time": found - begun,
            "routing_time": took,
            **(_refusals(all_routed, own.proof) if own.proof else {}),
        }

    def _meshes(self, mesh: Mesh, seed: int) -> Iterator[Mesh]:
        """Yield the mesh with the stuck cells of each draw.

        Of the same seed, those of few stuck cells are among those of many.
        """
        own, count = self._options, len(mesh.cells)
        for draw in range(own.draws):
            rng = random.Random(f"stuck cells {seed}.{draw}")
            cells = [(cell, rng.choice(tuple(Gate))) for cell in rng.sample(range(count), count)]
            yield replace(mesh, stuck=dict(cells[: own.stuck]))


def _traced(routed: Routed) -> Routed:
    """Return a routing after its light was traced by code that shares nothing with the router."""
    kept = [number for number, routes in enumerate(routed.routes) if routes is not None]
    only = replace(
        routed,
        matchings=tuple(routed.matchings[number] for number in kept),
        routes=tuple(routed.routes[number] for number in kept),
    )
    MeshSwitch.from_json(MeshSwitch.of(only).to_json())
    return routed


def _lengths(all_routed: list[Routed]) -> dict[str, float]:
    """Return how many cells routes pass, on average and at most."""
    lengths = [
        len(lanes) - 1
        for routed in all_routed
        for routes in routed.routes
        if routes is not None
        for lanes in routes.values()
    ]
    if not lengths:
        return {}
    return {"route_cells": fmean(lengths), "longest_route": max(lengths)}


def _refusals(all_routed: list[Routed], seconds: float) -> dict[str, float]:
    """Return the share of matchings without routes that are proved to have none."""
    proved = []
    for routed in all_routed:
        graph = Graph.of(routed.mesh)
        for matching, routes in zip(routed.matchings, routed.routes, strict=True):
            if routes is None:
                proof = solve(graph, demands(routed.mesh, graph, matching), seconds=seconds)
                proved.append(proof.status == "infeasible")
    return {"proved_impossible": fmean(proved)} if proved else {}
