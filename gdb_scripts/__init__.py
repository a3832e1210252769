"""What gdb loads to record and check a C or C++ engine's steps. Standard library only, Python 3.8 grammar: gdb embeds
the board's Python, not the user's environment."""
