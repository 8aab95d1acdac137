"""What is broken on purpose: each fault can be injected, observed by somebody else, and undone."""
