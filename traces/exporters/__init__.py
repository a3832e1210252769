"""Step traces out to other tools, one file a target."""
