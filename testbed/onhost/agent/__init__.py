"""The agent of a host: it serves the orchestrator over SSH and starts, monitors and ends ranks.

Reading order: `server` (requests and events), `ranks` and `children` (processes of ranks),
`network`, `ports` and `identity` (the fabric ports), `journal` and `undo` (changes that must be
undone, by this agent or the next one on the host).
"""
