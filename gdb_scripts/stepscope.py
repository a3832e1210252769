"""The file to source in gdb: `source gdb_scripts/stepscope.py`, then `help stepscope`."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from gdb_scripts import commands  # noqa: E402 - the path has to be there first

commands.register()
