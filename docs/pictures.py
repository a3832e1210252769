"""Draws the pictures of the README anew: `make pictures`. The traces are made here, by the embedded model and the
sample that ships with a fault, so times in the pictures are those of the machine that drew them.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from inspector.tui.feed import Feed
from inspector.tui.viewer import Viewer

ROOT = Path(__file__).parent.parent
IMAGES = Path(__file__).parent / "images"
PICTURES = [
    # name, trace, keys, size
    ("view", "count.steps", ("down", "down", "down", "down", "down", "3", "escape"), (120, 36)),
    ("rules", "restored-prefix.steps", ("n",), (120, 36)),
    ("time", "long.steps", ("end", "3", "z"), (100, 26)),
    ("layers", "count.steps", ("down", "down", "down", "down", "2", "z"), (80, 18)),
]


def record(name: str, *args: str) -> None:
    """A trace of the embedded model in the current folder."""
    command = [sys.executable, "-m", "inspector.cli", "run", *args, "-o", name]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


async def draw(trace: str, keys: tuple[str, ...], size: tuple[int, int]) -> str:
    """The view of a trace after some keys, as SVG."""
    feed = Feed(trace, follow=False)
    feed.judge()
    while feed.turn():
        pass
    app = Viewer(feed, theme="textual-dark")
    async with app.run_test(size=size) as pilot:
        await pilot.pause(0.3)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.1)
        await pilot.pause(0.3)
        return app.export_screenshot(title=f"stepscope view {trace}", simplify=True)


def main() -> None:
    """Every picture into docs/images."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        (Path(folder) / "restored-prefix.steps").write_bytes(
            (ROOT / "traces/samples/restored-prefix.steps").read_bytes()
        )
        record("count.steps", "-p", "Count from 1 to 40")
        record("long.steps", "-p", "Count from 1 to 40", "--ignore-eos", "--max-new-tokens", "420")
        for name, trace, keys, size in PICTURES:
            picture = asyncio.run(draw(trace, keys, size))
            # an id of its own each time would change the file where nothing else did
            (IMAGES / f"{name}.svg").write_text(re.sub(r"terminal-\d+", "terminal", picture))


if __name__ == "__main__":
    main()
