"""How many threads the matrix products run on.

numpy hands them to a BLAS library with a pool of threads of its own, which threadpoolctl sets while the process
runs; docs/floor.md says what is worth setting.
"""

from __future__ import annotations

from pathlib import Path

import threadpoolctl

from engine.errors import EngineError
from engine.model import DEMO_MODEL


def settle_threads(asked: int | None, model: Path) -> None:
    """As many threads as were asked for; without, BLAS's own number, but one for the embedded model.

    Products of its size are over before a second thread wakes. Raises EngineError as `limit_threads`.
    """
    if asked is not None:
        limit_threads(asked)
    elif model == DEMO_MODEL:
        limit_threads(1)


def limit_threads(n: int) -> None:
    """Let products use at most `n` threads from now on. Raises EngineError for fewer than one."""
    if n < 1:
        raise EngineError(f"threads is {n}; it is 1 or more")
    threadpoolctl.threadpool_limits(n, user_api="blas")


def threads_in_use() -> int:
    """The threads that a product may use now."""
    return max(
        (pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"), default=1
    )
