"""The engine process that a live view watches: how it is, and asking it to stop so that its trace is complete."""

from __future__ import annotations

import contextlib
import signal
import subprocess

PATIENCE_S = 10.0


class Engine:
    """A process writing the trace that is shown. It is asked to stop with SIGINT, never killed."""

    def __init__(self, process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
        self._process = process
        self._asked = False

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def words(self) -> str:
        """How it is, in a few words."""
        code = self._process.poll()
        if code is None:
            return "asked the engine to stop" if self._asked else f"engine runs as process {self._process.pid}"
        if code < 0:
            names = {s.value: s.name for s in signal.Signals}
            return f"engine ended by {names.get(-code, f'signal {-code}')}"
        return "engine ended" if code == 0 else f"engine ended with exit code {code}"

    def ask_to_stop(self) -> None:
        """Send SIGINT once; a second request sends it again."""
        if self.running:
            self._asked = True
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float = PATIENCE_S) -> bool:
        """Wait until it ended, so that its trace is complete. False if it still runs after `seconds`."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
