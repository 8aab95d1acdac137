"""How ranks connect to each other, exchange bytes, and receive the commands of their agent.

Reading order: `control` (commands and the order to leave), `handshake` (connections that prove
both ranks), `connections` and `tasks` (bytes over them), `ring` and `group` (collectives on them),
`probe` (what they deliver).
"""
