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
MOST_BYTES = 1 << 20
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
    own: dict[str, str] = {}
    for action, keys in _given(path):
        if action not in default:
            raise UsageError(f"{path}: no action is called {action!r}; there are {', '.join(sorted(default))}")
        if action in own:
            raise UsageError(f"{path}: {action} is given keys twice; put all of them on one line")
        own[action] = _checked(path, action, keys)
    _refuse_clashes(path, {**default, **own})
    return own


def _given(path: Path) -> list[tuple[str, Any]]:
    """What the file says, by action; nothing where it is not there."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(f"{path}: larger than a file of keys can be; each action is one line")
        return list(_flat(tomllib.loads(data.decode("utf-8").replace("\r\n", "\n"))))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, tables in tables in tables
        raise UsageError(
            f'{path}: no file of keys; each line is an action and its keys: film.down = "s,down"'
        ) from None


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
        said = _said(keys if wrong is None else wrong)
        raise UsageError(f'{path}: {action}: {said} is no key; such as "w", "ctrl+w", "f5", "pageup" or "w,up"')
    return ",".join(names)


def _said(value: Any) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):  # Python writes no number of more than 4,300 digits
        return "that"


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
