"""One file a verb. Each has `HELP` (one line), `configure(parser)` and `run(args) -> int` (the exit code); imports that
cost time stand inside functions, so that `stepscope --help` stays instant."""
