"""`stepscope`, from its first moment, and `python -m inspector`: the command line is imported when Ctrl-C is quiet.

Python answers a Ctrl-C that comes in the middle of an import with a traceback. So until the command line is there to
take it, it ends this process as it would end any other program.
"""

import signal
from typing import NoReturn


def program() -> NoReturn:
    """The process that a shell starts as `stepscope`."""
    was = signal.getsignal(signal.SIGINT)
    if was is signal.default_int_handler:  # else it is ignored, as in the background of a script
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from inspector import cli

    signal.signal(signal.SIGINT, was)
    cli.program()


if __name__ == "__main__":
    program()
