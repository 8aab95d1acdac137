"""The lab, simulated on one Linux machine: private namespaces, virtual hosts, circuits as packets.

The room in the order of a start: `sandbox` (seen from outside), `launch` (the way in), `server`
(the first process inside), `zygote` and `host` (virtual hosts), `light` (circuits as packets),
`wire` (far ends on TCP and pseudo-terminals). What it does not model: bit errors, dispersion,
polarisation, transceiver start-up beyond one link-up delay, and anything slower than its two
cores.
"""

NEW_TWIN = "new"
"""What `--twin` means without a name: a twin that lives as long as the command that starts it."""
