"""Communication between ranks, and the control channel from a rank to its agent.

Reading order: `control` (commands and the order to leave), `handshake` (authenticated connections),
`connections` and `tasks` (bytes over them), `ring` and `group` (collectives on them), `probe`
(their measured rate and latency).
"""
