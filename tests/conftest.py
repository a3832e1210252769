"""What every test shares.

Property tests have no deadline, since a busy machine is not a fault of ours, and the same examples each time, so that a
suite that passed passes again; `make fuzz` looks for new ones. Programs that the tests start hear every signal, also
where the tests themselves were started in the background of a script or under nohup.
"""

import os
import signal

from hypothesis import settings

settings.register_profile("stepscope", deadline=None, derandomize="FUZZ_SECONDS" not in os.environ)
settings.load_profile("stepscope")

for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)  # as deaf as before, but no child inherits it
