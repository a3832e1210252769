"""What a trace says of the program under debug: its build, and where the hook stands.

gdb tells the build id and the source line. Compiler and flags come from whoever looked into the binary before gdb was
started (`stepscope gdb`, in the environment variable STEPSCOPE_FACTS) or froze its layout, and count only for that
very build.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, List, Optional, Tuple

from gdb_scripts import host
from gdb_scripts.frozen import Layout
from gdb_scripts.layout import Absent
from gdb_scripts.probe import Probe

VARIABLE = "STEPSCOPE_FACTS"
_ENGINE_FACTS = ("build_id", "compiler", "flags", "binary")
_given: List[Dict[str, Any]] = []


def take_given() -> None:
    """Take the facts out of the environment: the program under debug is not to inherit them."""
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return
    with contextlib.suppress(Absent):
        host.execute("unset environment " + VARIABLE)
    with contextlib.suppress(ValueError, RecursionError):
        facts = json.loads(text)
        _given.extend(facts if isinstance(facts, list) else [facts])


def engine_of(file: str, build_id: str, layout: Optional[Layout]) -> Dict[str, Any]:
    """`engine` of RUN for the program or library that holds the hook."""
    engine: Dict[str, Any] = {"binary": os.path.basename(file)} if file else {}
    if build_id:
        engine["build_id"] = build_id
    for facts in [*_given, *([layout.engine] if layout is not None else [])]:
        if isinstance(facts, dict) and build_id and facts.get("build_id") == build_id:
            engine.update({k: str(facts[k]) for k in _ENGINE_FACTS if k in facts and k not in engine})
    return engine


def hook_of(probe: Probe, layout: Optional[Layout]) -> Tuple[str, Dict[str, Any]]:
    """(the file that holds the forward hook, the `source` note); empty where gdb cannot tell."""
    hook = probe.hooks_for("forward")[0]
    if layout is not None:
        frozen = next(h for h in layout.hooks if h.hook is hook)
        files = [file for file, build_id in host.build_ids().items() if build_id == layout.build_id]
        note = {"file": frozen.file, "line": frozen.line, "function": frozen.function} if frozen.file else {}
        return (files or [""])[0], note
    try:
        places = [p for where in host.location(hook) for p in host.where(where)]
    except Absent:
        return "", {}
    for pc, file, line in places:
        if file:  # a PLT stub has none
            return host.file_of(pc), {"file": file, "line": line, "function": hook.function}
    return "", {}
