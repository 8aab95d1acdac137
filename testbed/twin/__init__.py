"""The twin: a lab simulated live on one Linux machine, in private namespaces.

In the order of a start: `sandbox` (the twin seen from outside), `launch` (enters the namespaces),
`server` (the first process inside), `zygote` and `host` (virtual hosts), `light` (circuits as
packets), `far_end_tcp_pty` and `far_end_ssh` (far ends on their wires). Not modelled: bit errors,
dispersion, polarisation, transceiver start-up beyond one link-up delay, and anything slower than
the machine's processors.
"""

NEW_TWIN = "new"
"""What `--twin` means without a name: a twin that lives as long as the command that starts it."""
