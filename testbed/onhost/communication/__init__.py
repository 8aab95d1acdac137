"""How ranks connect to each other, exchange bytes, and hear from their agent."""
