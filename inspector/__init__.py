"""What people use: the command line, the live and replay TUI, and the words and figures both of them show."""
