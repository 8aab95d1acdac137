"""Photonic mesh, without a read-back: what its cells do by themselves, only the light tells."""

from testbed.contract.family import Family

_UNSEEN = "nothing but light would tell, for it cannot be asked"

FAMILY = Family(
    "photonic-mesh",
    ("tcp",),
    inputs=6,
    outputs=6,
    blind=True,
    impossible={
        "lag": "it has no read-back",
        "swept": _UNSEEN,
        "flap": "it has no read-back",
        "stuck": "cells stick, not circuits; see `cell-stuck`",
        "partial": "a list sets all of its cells, but for stuck ones",
        "misrouted": "circuits follow from the cells",
        "failed": "it flags nothing",
        "vanish": _UNSEEN,
        "meddled": _UNSEEN,
        "restart": _UNSEEN,
        "restart-wrong": "every cell comes back in bar",
    },
)
