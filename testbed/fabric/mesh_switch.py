"""Precomputed settings of a photonic mesh for a list of matchings, with a hash.

Loading does not trust the router that made them: light is traced through every setting.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.fabric import mesh_map
from testbed.fabric.matchings import what_is_wrong
from testbed.fabric.mesh import Gate, Joint, Mesh, Setting
from testbed.fabric.mesh_graph import Graph
from testbed.fabric.mesh_light import Tracer
from testbed.fabric.mesh_ports import Routed
from testbed.fabric.mesh_routes import setting_of

FORMAT = 1

_KEYS = {"mesh_switch", "mesh", "matchings", "sha256"}


@dataclass(frozen=True, slots=True)
class SetMatching:
    """The circuits of a matching, ingress to egress, and the cell states that make them."""

    circuits: Mapping[int, int]
    setting: Setting


@dataclass(frozen=True, slots=True)
class MeshSwitch:
    """A mesh with its ports, and every matching that has a known setting."""

    mesh: Mesh
    matchings: tuple[SetMatching, ...]

    @classmethod
    def of(cls, routed: Routed) -> MeshSwitch:
        """Return the switch for a complete routing; raise ValueError if a matching has no route."""
        graph = Graph.of(routed.mesh)
        first = 1 if routed.mesh.reciprocal else 1 + len(routed.mesh.ingress)
        found = []
        for matching, routes in zip(routed.matchings, routed.routes, strict=True):
            if routes is None:
                raise ValueError(f"{routed.count} of {len(routed.matchings)} matchings are routed")
            setting = setting_of(routed.mesh, graph.gates(routes.values()))
            found.append(SetMatching({1 + a: first + b for a, b in matching}, setting))
        return cls(routed.mesh, tuple(found))

    @property
    def is_all_to_all(self) -> bool:
        """Tell whether every two hosts meet once in each direction, in the fewest matchings."""
        inputs = len(self.mesh.ingress)
        base = 1 if self.mesh.reciprocal else 1 + inputs
        met = [[(i - 1, e - base) for i, e in one.circuits.items()] for one in self.matchings]
        if not self.mesh.reciprocal:
            if any((b, a) not in pairs for pairs in met for a, b in pairs):
                return False
            met = [[pair for pair in pairs if pair[0] < pair[1]] for pairs in met]
        return what_is_wrong([tuple(pairs) for pairs in met], inputs) is None

    def losses(self) -> tuple[tuple[float, ...], ...]:
        """Return the loss of every circuit, by matching: in dB where known, otherwise in cells."""
        tracer = Tracer(self.mesh.cells)
        return tuple(
            tuple(_loss(self.mesh, tracer, one.setting, ingress) for ingress in one.circuits)
            for one in self.matchings
        )

    def to_json(self) -> dict[str, Any]:
        """Return the switch in its public format, with the hash of its content."""
        matchings = [
            {
                "circuits": [[ingress, egress] for ingress, egress in one.circuits.items()],
                "cells": "".join(gate.value for gate in one.setting),
            }
            for one in self.matchings
        ]
        content = {
            "mesh_switch": FORMAT,
            "mesh": mesh_map.to_json(self.mesh),
            "matchings": matchings,
        }
        return {**content, "sha256": digest(content)}

    @classmethod
    def from_json(cls, value: Any) -> MeshSwitch:
        """Return the switch in a file, after checking its hash and tracing its light.

        Raise ValueError with the mistake for an invalid file.
        """
        if not isinstance(value, Mapping) or value.get("mesh_switch") != FORMAT:
            raise ValueError(f"it is not a precomputed mesh configuration of format {FORMAT}")
        if set(value) != _KEYS:
            raise ValueError(
                f"a precomputed mesh configuration has the keys {', '.join(sorted(_KEYS))}"
            )
        content = {key: value[key] for key in value if key != "sha256"}
        if value["sha256"] != digest(content):
            raise ValueError(
                f"the hash of its content, {digest(content)}, differs from the stated one"
            )
        mesh = mesh_map.from_json(value["mesh"])
        if not mesh.ports:
            raise ValueError("its mesh uses no ports")
        if not isinstance(value["matchings"], list):
            raise ValueError("its matchings are not a list")
        matchings = tuple(_matching(mesh, one) for one in value["matchings"])
        tracer = Tracer(mesh.cells)
        for number, one in enumerate(matchings):
            _check(mesh, tracer, number, one)
        return cls(mesh, matchings)


def digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a file's content as JSON with sorted keys and no spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _matching(mesh: Mesh, value: Any) -> SetMatching:
    if not isinstance(value, Mapping) or set(value) != {"circuits", "cells"}:
        raise ValueError("a matching must have the keys circuits and cells")
    letters, pairs = value["cells"], value["circuits"]
    known = {gate.value: gate for gate in Gate}
    if not isinstance(letters, str) or not set(letters) <= known.keys():
        raise ValueError("the cells of a matching are a text of '=' and 'x'")
    if len(letters) != len(mesh.cells):
        raise ValueError(
            f"the mesh has {len(mesh.cells)} cells, but a matching sets {len(letters)}"
        )
    if not isinstance(pairs, list) or not all(_is_pair(mesh, pair) for pair in pairs):
        raise ValueError("the circuits of a matching are pairs of ports of the mesh")
    circuits: dict[int, int] = dict(pairs)
    if len(circuits) < len(pairs):
        raise ValueError("a matching must use each port at most once")
    return SetMatching(circuits, tuple(known[letter] for letter in letters))


def _is_pair(mesh: Mesh, pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    inputs = len(mesh.ingress)
    least = 0 if mesh.reciprocal else inputs
    whole = all(isinstance(port, int) and not isinstance(port, bool) for port in pair)
    return whole and 0 < pair[0] <= inputs and max(pair[0], least) < pair[1] <= len(mesh.ports)


def _check(mesh: Mesh, tracer: Tracer, number: int, one: SetMatching) -> None:
    for cell, gate in mesh.stuck.items():
        if one.setting[cell] is not gate:
            raise ValueError(f"matching {number} moves the stuck cell {cell}")
    ports: Mapping[int, Joint] = mesh.ports
    joined = [(ports[ingress], ports[egress]) for ingress, egress in one.circuits.items()]
    if wrong := tracer.faults(one.setting, joined, ports.values()):
        raise ValueError(f"in matching {number}, {wrong[0]}")


def _loss(mesh: Mesh, tracer: Tracer, setting: Setting, ingress: int) -> float:
    cells = tracer.ray(mesh.ports[ingress], setting).cells
    if not mesh.losses:
        return float(len(cells))
    return sum(mesh.losses[cell][setting[cell] is Gate.CROSS] for cell in cells)
