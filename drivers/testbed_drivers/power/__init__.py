"""Power units and management controllers, with their far ends."""
