"""Keys of one's own: `$XDG_CONFIG_HOME/stepscope/keys.toml` gives actions of the view other keys. No Textual here.

    film.up = "w"
    film.down = "s,down"

An action's name is what the help shows beside its keys; the keys replace those it has.
"""

from __future__ import annotations

import os
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from inspector.cli import UsageError

PAGES = ("help", "saving", "text", "list", "diff")
"""First words of actions that work on a page of their own, where the view's keys do not"""
_NAMED = {
    "escape", "enter", "tab", "space", "backspace", "delete", "insert", "up", "down", "left", "right", "home", "end",
    "pageup", "pagedown", *(f"f{n}" for n in range(1, 25)),
}  # fmt: skip


def keys_file() -> Path:
    """Where the keys are looked for."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(home) / "stepscope" / "keys.toml"


def own_keys(default: Mapping[str, str], path: Path | None = None) -> dict[str, str]:
    """Keys by action from the user's file; empty where there is none.

    default: each action's keys, comma-separated. An action's first word is where it works: within one place no key
    may mean two things. Raises UsageError, which names the file and the line or the action.
    """
    path = path or keys_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    try:
        given = _flat(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}") from None
    own = {}
    for action, keys in given:
        if action not in default:
            raise UsageError(f"{path}: no action is called {action!r}; there are {', '.join(sorted(default))}")
        own[action] = _checked(path, action, keys)
    _refuse_clashes(path, {**default, **own})
    return own


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _checked(path: Path, action: str, keys: Any) -> str:
    names = [key.strip() for key in keys.split(",")] if isinstance(keys, str) else []
    wrong = next((key for key in names if not _is_key(key)), None)
    if not names or wrong is not None:
        seen = keys if wrong is None else wrong
        raise UsageError(f'{path}: {action}: {seen!r} is no key; such as "w", "ctrl+w", "f5", "pageup" or "w,up"')
    return ",".join(names)


def _is_key(key: str) -> bool:
    name = re.sub(r"^(?:(?:ctrl|shift|alt)\+)*(?=.)", "", key)
    if len(name) == 1:
        return name.isprintable() and name != " "
    if name in _NAMED:
        return True
    try:  # question_mark, by its Unicode name
        return bool(unicodedata.lookup(name.replace("_", " ")))
    except KeyError:
        return False


def _refuse_clashes(path: Path, keys: Mapping[str, str]) -> None:
    places: dict[tuple[str, str], str] = {}
    for action, names in keys.items():
        for key in names.split(","):
            place = next((page for page in PAGES if action.startswith(f"{page}.")), ""), key
            other = places.setdefault(place, action)
            if other != action:
                raise UsageError(f"{path}: {key} would mean both {other} and {action}; give one of them another key")
