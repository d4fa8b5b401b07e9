"""The interfaces of other systems, over the same engine."""
