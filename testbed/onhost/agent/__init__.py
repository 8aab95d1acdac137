"""The agent of a host: it serves the orchestrator over SSH and starts, watches and ends ranks.

Reading order: `server` (requests and events), `ranks` and `children` (processes of ranks),
`network`, `ports` and `identity` (the fabric ports), `journal` and `undo` (what must be taken
back, by whichever agent runs on the host next).
"""
