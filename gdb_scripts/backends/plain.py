"""The `plain` back-end: a command file for a gdb that has no Python, and the way back from what it prints.

    python -m gdb_scripts.backends.plain native > hooks.gdb
    gdb -nx -batch -x hooks.gdb -ex run --args PROGRAM ARGS > run.log
    python -m gdb_scripts.backends.plain native run.log run.steps

Each hook prints one line, `stepscope [forward] seq_id=0 token_id=64 … cache_before={26, 26, 26}`, wherever it lands in
the program's own output. A gdb without Python cannot catch an error: an expression that does not resolve, or a null
pointer, stops the program with gdb's message, and the field has to go from the probe.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple

from gdb_scripts import expressions as ex
from gdb_scripts import probe as probes
from gdb_scripts.hits import Hit
from gdb_scripts.layout import DEFAULT_CAP, Absent
from gdb_scripts.probe import Hook, Probe, ProbeError
from gdb_scripts.session import Session
from traces import fields

_SETTINGS = (
    "pagination off",
    "confirm off",
    "breakpoint pending on",
    "width 0",
    "print elements 0",
    "print repeats 0",
    "print address off",
)
_LINE = re.compile(r"stepscope \[([^\]]+)\]((?: [\w.]+=(?:\{[^}]*\}|[^\s{]+))*)")
_PAIR = re.compile(r" ([\w.]+)=(\{[^}]*\}|[^\s{]+)")
_ENDED = re.compile(r"\[Inferior \d+ \(process \d+\) exited (normally|with code)")
_KILLED = re.compile(r"Program terminated with signal|\[Inferior \d+ \(process \d+\) killed\]")


# -- the command file ------------------------------------------------------------------------------------------------


def script(probe: Probe) -> str:
    """The commands for gdb. Raises ProbeError for what plain gdb cannot read."""
    lines = ["# stepscope: hooks of the probe %s, for a gdb without Python" % probe.name]
    lines += ["set " + setting for setting in _SETTINGS]
    lines += ["set $stepscope_facts = 0"]
    for hook in probe.hooks:
        lines += ["", *_hook_lines(probe, hook)]
    return "\n".join(lines) + "\n"


def _hook_lines(probe: Probe, hook: Hook) -> List[str]:
    if hook.function.startswith("/"):
        raise ProbeError("[%s] function: a gdb without Python takes a name, not a pattern" % hook.section)
    if "slot" in hook.conditions:
        raise ProbeError("[%s] slot: several sequences a forward need a gdb with Python" % hook.section)
    source = "-source %s " % hook.file if hook.file else ""
    lines = ["break %s-qualified -function %s" % (source, hook.function), "commands", "silent"]
    if hook.event == "forward" and probe.facts:
        lines += ["if $stepscope_facts == 0", "set $stepscope_facts = 1"]
        lines += _printed("facts", _Wanted(probe.facts.items(), {}, hook.section))
        lines += ["end"]
    wanted: List[Tuple[str, ex.Node]] = [("when." + name, node) for name, node in hook.conditions.items()]
    wanted += list(hook.reads.items())
    wanted += [("after." + name, node) for name, node in hook.after.items()]
    wanted += [("sum." + name, accumulator.node) for name, accumulator in hook.accumulators.items()]
    lines += _printed(hook.section, _Wanted(wanted, hook.caps, hook.section))
    return [*lines, "continue", "end"]


class _Wanted:
    """Fields sorted into numbers and arrays, as C expressions."""

    def __init__(self, wanted: Iterable[Tuple[str, ex.Node]], caps: Dict[str, int], section: str) -> None:
        self.numbers: List[Tuple[str, str, str]] = []
        self.arrays: List[Tuple[str, str, str, int]] = []
        for name, node in wanted:
            field = name.partition(".")[2] or name
            try:
                if isinstance(node, ex.Slice):
                    start = "0" if node.start is None else _text(node.start)
                    first = "%s[%s]" % (_text(node.base), start)
                    self.arrays.append((name, first, _text(node.length), caps.get(field, DEFAULT_CAP)))
                    continue
                known = fields.FIELDS.get(field)
                is_time = name.startswith("sum.") or (known is not None and known.dtype == "F32")
                form, cast = ("%.17g", "double") if is_time else ("%lld", "long long")
                self.numbers.append((name, form, "(%s) (%s)" % (cast, _text(node))))
            except ProbeError as problem:
                raise ProbeError("[%s] %s: %s" % (section, name, problem)) from None


def _printed(section: str, wanted: _Wanted) -> List[str]:
    form = "".join(" %s=%s" % (name, form) for name, form, _ in wanted.numbers)
    values = "".join(", " + value for _, _, value in wanted.numbers)
    lines = ['printf "stepscope [%s]%s"%s' % (section, form, values)]
    for name, first, length, cap in wanted.arrays:
        lines += ["if %s > 0 && %s <= %d" % (length, length, cap)]
        lines += ['printf " %s="' % name, "output %s@(int) (%s)" % (first, length), "end"]
    return [*lines, 'printf "\\n"']


def _text(node: ex.Node) -> str:
    """The expression in C. Raises ProbeError for what gdb itself cannot say."""
    if isinstance(node, ex.Number):
        return str(node.value)
    if isinstance(node, ex.Name):
        return node.text
    if isinstance(node, ex.Register):
        return "$" + node.name
    if isinstance(node, ex.Member):
        return "%s%s%s" % (_text(node.base), "->" if node.arrow else ".", node.name)
    if isinstance(node, ex.Index):
        return "%s[%s]" % (_text(node.base), _text(node.position))
    if isinstance(node, ex.Unary):
        return "(%s%s)" % (node.operator, _text(node.operand))
    if isinstance(node, ex.Cast):
        return "((%s %s) %s)" % (node.type_name, "*" * node.stars, _text(node.operand))
    if isinstance(node, ex.Binary):
        return "(%s %s %s)" % (_text(node.left), node.operator, _text(node.right))
    raise ProbeError("a slice inside an expression, or a dynamic_cast, needs a gdb with Python")


# -- and back --------------------------------------------------------------------------------------------------------


def convert(lines: Iterable[str], probe: Probe, path: Optional[str], run: Optional[Dict[str, Any]] = None) -> Session:
    """What a run with the command file printed, as a trace at `path` (None: judged only). The session is closed; its
    `steps`, `problems` and `report` tell the rest. There is no clock: t_ns stays absent."""
    session = Session(probe, path, {"clock": "none", **(run or {})})
    hooks = {hook.section: hook for hook in probe.hooks}
    facts: Dict[str, Any] = {}
    finish: Optional[str] = "abort"
    for line in lines:
        found = _LINE.search(line)
        if found is not None:
            values = {name: _value(text) for name, text in _PAIR.findall(found.group(2))}
            if found.group(1) == "facts":
                facts = values
            elif found.group(1) in hooks:
                session.hit(_hit(hooks[found.group(1)], values, facts))
                finish = "abort"
        ended = _ENDED.search(line)
        if ended is not None or _KILLED.search(line):
            finish = None if ended is not None and ended.group(1) == "normally" else "abort"
            session.program_ended(finish)
            finish = None
    if finish is not None:
        session.program_ended(finish)
    session.close()
    return session


def _hit(hook: Hook, values: Dict[str, Any], facts: Dict[str, Any]) -> Hit:
    groups: Dict[str, Dict[str, Any]] = {"": {}, "when": {}, "after": {}, "sum": {}}
    for name, value in values.items():
        group, _, field = name.rpartition(".")
        groups.setdefault(group, {})[field] = value
    if groups["when"].get("skip"):
        return Hit(hook, {}, {}, {}, {}, {}, None, skipped=True)
    missing: Dict[str, Absent] = {}
    if groups["when"].get("timed") == 0:
        groups["sum"] = {}
        off = Absent("not_measured", "the engine's timers are switched off")
        missing = dict.fromkeys(hook.accumulators, off)
    return Hit(hook, groups[""], groups["after"], groups["sum"], missing, facts, None)


def _value(text: str) -> Any:
    if text.startswith("{"):
        return [_number(part) for part in text[1:-1].split(",")]
    return _number(text)


def _number(text: str) -> Any:
    """gdb writes a character as 97 'a', an enumerator by name: of those only the number counts."""
    word = text.split()[0] if text.split() else ""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return None


def main(arguments: List[str]) -> int:
    """PROBE prints the command file; PROBE LOG TRACE converts what it printed."""
    if len(arguments) not in (1, 3):
        print("usage: python -m gdb_scripts.backends.plain PROBE [LOG TRACE]", file=sys.stderr)
        return 2
    try:
        probe = probes.load(arguments[0])
        if len(arguments) == 1:
            sys.stdout.write(script(probe))
            return 0
        with open(arguments[1], encoding="utf-8", errors="replace") as file:
            session = convert(file, probe, arguments[2])
    except (ProbeError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for problem in session.problems:
        print(problem, file=sys.stderr)
    return 2 if session.problems or not session.steps else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
