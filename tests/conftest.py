"""What every test shares: property tests have no deadline, since a busy machine is not a fault of ours, and the same
examples each time, so that a suite that passed passes again; `make fuzz` looks for new ones.
"""

import os

from hypothesis import settings

settings.register_profile("stepscope", deadline=None, derandomize="FUZZ_SECONDS" not in os.environ)
settings.load_profile("stepscope")
