"""Pairs of builds from public reports whose answer is known: cases/diff/NAME.{base,new}*.jsonl and NAME.expect.json."""

from __future__ import annotations

from pathlib import Path

from traces.importers.jsonl import import_jsonl

PAIRS = Path(__file__).parent / "cases" / "diff"


def known_pair(name: str, folder: Path) -> tuple[list[Path], list[Path]]:
    """The traces of the base and of the new build, made in a folder."""
    sides: list[list[Path]] = []
    for side in ("base", "new"):
        texts = sorted(PAIRS.glob(f"{name}.{side}*.jsonl"))
        sides.append([folder / f"{text.stem}.steps" for text in texts])
        for text, path in zip(texts, sides[-1], strict=True):
            import_jsonl(text, path)
    return sides[0], sides[1]
