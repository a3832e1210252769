"""A `stepscope` process, measured from outside: by a small one that starts it and waits, so that what the bench itself
holds counts for nothing. A process that was forked from a large one is told to have held as much.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

_WATCHER = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
done = subprocess.run([sys.executable, "-m", "inspector.cli", *sys.argv[1:]], **quiet)
took, spent = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
if done.returncode == 2:
    sys.exit(done.stderr.decode())
print(json.dumps([took, spent.ru_utime + spent.ru_stime, spent.ru_maxrss * 1024 / 1e6]))
"""


class Cost(NamedTuple):
    """Seconds by the clock and of the processor, and the MB that the largest process of it held at most."""

    wall: float
    cpu: float
    memory: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} ({self.cpu:.1f} of the processor)"


def measured(*words: object) -> Cost:
    """What `stepscope WORDS` takes; its output is thrown away."""
    command = [sys.executable, "-c", _WATCHER, *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Cost(*json.loads(done.stdout))
