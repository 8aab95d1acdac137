"""One file per driver: what the contract suite must know to put it and its far end together."""
