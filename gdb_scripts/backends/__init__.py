"""Ways to look at a hook: `stop` (a breakpoint that reads and goes on), more beside it, all from the same spec."""
