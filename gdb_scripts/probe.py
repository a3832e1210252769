"""A probe: the declared hook spec of one engine, an .ini file that says where to look and what to read there.

    [probe]
    name = native
    layers = full
    n_layers = st->cfg.n_layers

    [forward]
    function = forward
    token_id = tokens[0]
    n_tokens = n
    seq_before = st->seq_len
    cache_before = st->cache_len[:st->cfg.n_layers]

Sections: `probe` (facts of the run), and one a hook: `forward` (entered before each forward), `finish` (a sequence
ended), `request` (a sequence begins), `shift` (the oldest rows leave a slot). docs/gdb.md explains the keys.
"""

from __future__ import annotations

import configparser
import math
import os
import re
import stat
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from gdb_scripts import expressions as ex
from traces import fields

EVENTS = ("request", "forward", "shift", "finish")
PROBES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probes")

_FACTS = ("n_layers", "vocab_size", "capacity", "n_heads", "n_kv_heads", "head_dim", "max_new_tokens", "eos")
_PROBE_KEYS = ("name", "about", "engine", "layers", "budget_ms") + _FACTS
_HOOK_KEYS = ("function", "file", "about", "phase", "finish", "scale")
_CONDITIONS = ("skip", "timed", "slot", "outputs")
MOST_ELEMENTS = 1 << 20
"""What a cap can allow: gdb takes the memory for a block before it knows whether it can be read."""
_LONGEST_NAME = 1000
MOST_BYTES = 1 << 20
SLOT = "slot"
"""`$slot` in an expression is the slot whose record is being read, where one forward feeds several."""
_SEEN_AT = {
    "forward": (
        "seq_id token_id n_tokens seq_before cache_before write_pos pos draft_cache_len n_drafted kv_used kv_free "
        "logit margin runner_up forward_id"
    ).split(),
    "finish": "seq_id token_id seq_before cache_before kv_used kv_free".split(),
    "shift": "n_keep n_discard".split(),
    "request": "seq_id prompt_tokens n_reused max_new_tokens prompt_ids".split(),
}
_AFTER = "hidden_rms logit margin runner_up n_accepted write_pos kv_used kv_free".split()


class ProbeError(ValueError):
    """A hook spec that cannot be used; the message names the file, the section and the key."""


class Accumulator(NamedTuple):
    """A time that the program sums up: differenced a step, `scale` turns it into ms."""

    node: ex.Node
    scale: float


class Hook(NamedTuple):
    """One place in the program.

    function: the function's name as gdb takes it, or a regular expression between slashes. file: to tell functions of
    one name apart. reads: field -> expression; after: fields that the program still holds of the forward that ended,
    read at the next entry and given to the step before; caps: field -> the most elements its slice may have;
    accumulators: time field -> what sums it up. codes: for `phase` and `finish`, value in the program -> name.
    conditions: `skip` (not zero: a warm-up, not recorded), `timed` (zero: the accumulators mean nothing), `slot` (the
    engine's own number for where a sequence lives, or a slice with one for each token fed: one record a slot),
    `outputs` (which of the tokens fed give logits). texts: key -> what the file says, for messages.
    """

    event: str
    section: str
    function: str
    file: Optional[str]
    reads: Dict[str, ex.Node]
    after: Dict[str, ex.Node]
    caps: Dict[str, int]
    accumulators: Dict[str, Accumulator]
    codes: Dict[str, Dict[int, str]]
    conditions: Dict[str, ex.Node]
    texts: Dict[str, str]

    @property
    def pattern(self) -> Optional[str]:
        """The regular expression where `function` is one."""
        return _pattern(self.function)


class Probe(NamedTuple):
    """A whole hook spec. facts: name -> expression, read once at the first hit; layers: as RUN says them, or "full"
    for as many full layers as n_layers reads, or None where the spec does not say. texts: as in Hook, of [probe]."""

    name: str
    path: str
    engine: str
    layers: Any
    facts: Dict[str, ex.Node]
    budget_ms: float
    hooks: List[Hook]
    texts: Dict[str, str]

    def hooks_for(self, event: str) -> List[Hook]:
        """The hooks of one event."""
        return [hook for hook in self.hooks if hook.event == event]


def find(name: str) -> str:
    """The file of a shipped probe, or `name` itself where it is a path. Raises ProbeError with the choices."""
    if os.sep in name or name.endswith(".ini") or os.path.exists(name):
        return name
    path = os.path.join(PROBES, name + ".ini")
    if not os.path.exists(path):
        raise ProbeError(
            "no probe %r; those that come with stepscope are %s, or give the path of an .ini file"
            % (name, ", ".join(shipped()))
        )
    return path


def shipped() -> List[str]:
    """Names of the probes that come with stepscope."""
    return sorted(os.path.splitext(f)[0] for f in os.listdir(PROBES) if f.endswith(".ini"))


def load(name: str) -> Probe:
    """The probe of that name or path. Raises ProbeError."""
    path = find(name)
    return read(text_of(path, MOST_BYTES), path)


def text_of(path: str, most: int) -> str:
    """The text of a file of at most that many bytes. Raises ProbeError."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):  # opening a pipe would wait for a writer
            what = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise ProbeError("%s: cannot read: it is %s" % (path, what))
        if found.st_size > most:
            raise ProbeError("%s: cannot read: it has more than %d bytes; is it another file?" % (path, most))
        with open(path, encoding="utf-8") as file:
            return file.read(most)
    except OSError as error:
        raise ProbeError("%s: cannot read: %s" % (path, error.strerror)) from None
    except UnicodeDecodeError as error:
        raise ProbeError("%s: not UTF-8 text at byte %d" % (path, error.start)) from None


def read(text: str, path: str) -> Probe:
    """A probe from the text of its file. Raises ProbeError."""
    parser = _Parser(interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"), inline_comment_prefixes=("#",))
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ProbeError("%s: %s" % (path, _misspelt(error, text.splitlines()))) from None
    if "probe" not in parser:
        raise ProbeError("%s: has no [probe] section" % path)
    for name in parser.sections():
        _expect_plain(_Section(path, name, dict(parser[name])))
    head = _Section(path, "probe", dict(parser["probe"]))
    names = _short_names(head)
    sections = [_Section(path, name, dict(parser[name]), names) for name in parser.sections() if name != "probe"]
    hooks = [_hook(section) for section in sections]
    if not any(hook.event == "forward" for hook in hooks):
        raise ProbeError("%s: has no [forward] hook, so there is nothing to record" % path)
    head.expect(_PROBE_KEYS)
    return Probe(
        head.words.get("name", os.path.splitext(os.path.basename(path))[0]),
        path,
        head.words.get("engine", head.words.get("name", "unknown")),
        _layers(head),
        {key: head.expression(key) for key in _FACTS if key in head.words},
        head.number("budget_ms", 50.0),
        hooks,
        head.words,
    )


class _Parser(configparser.ConfigParser):
    """Keys as they are written: configparser makes them small letters."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def _misspelt(error: configparser.Error, lines: List[str]) -> str:
    """What is wrong with the text of a probe's file, and in which line."""
    if isinstance(error, configparser.MissingSectionHeaderError):
        return "line %d: %.60r stands before the first [section]" % (error.lineno, error.line.strip())
    if isinstance(error, configparser.DuplicateOptionError):
        return "line %d: [%s] has %s twice" % (error.lineno or 0, error.section, error.option)
    if isinstance(error, configparser.DuplicateSectionError):
        return "line %d: a second [%s]; give it a word behind its name, as in [%s two]" % (
            error.lineno or 0, error.section, error.section,
        )  # fmt: skip
    if isinstance(error, configparser.ParsingError):
        number = error.errors[0][0]
        return "line %d: %.60r is no KEY = VALUE" % (number, lines[number - 1].strip())
    return str(error).replace("\n", " ")


class _Section:
    """One section, for messages that name the place."""

    def __init__(self, path: str, name: str, words: Dict[str, str], names: Optional[Dict[str, ex.Node]] = None) -> None:
        self.path, self.name, self.words, self.names = path, name, words, names or {}

    def error(self, key: str, problem: str) -> ProbeError:
        return ProbeError("%s: [%s] %s: %s" % (self.path, self.name, key, problem))

    def expression(self, key: str) -> ex.Node:
        try:
            return ex.substitute(ex.parse(self.words[key]), self.names)
        except ex.ExpressionError as error:
            raise self.error(key, str(error)) from None

    def number(self, key: str, default: float) -> float:
        try:
            number = float(self.words.get(key, default))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.error(key, "%.60r is not a number" % self.words[key])
        return number

    def expect(self, known: Any) -> None:
        for key in self.words:
            if key not in known:
                raise self.error(key, "not known here; known are %s" % ", ".join(known))


_SECTION = re.compile(r"\w+( +[\w.-]+)*")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def _expect_plain(section: _Section) -> None:
    """Names and values are one line each: those of a hook become commands of a gdb without Python."""
    if not _SECTION.fullmatch(section.name):
        raise ProbeError("%s: [%s]: a section's name is words of letters and digits" % (section.path, section.name))
    for key, text in section.words.items():
        if _CONTROL.search(key + text):
            raise section.error(key, "goes over several lines, or holds control characters")


def _short_names(head: _Section) -> Dict[str, ex.Node]:
    """`let.NAME = EXPRESSION` in [probe]: NAME stands for it in everything below."""
    for key in [k for k in head.words if k.startswith("let.")]:
        head.names[key[len("let.") :]] = head.expression(key)
        del head.words[key]
    return head.names


def _layers(head: _Section) -> Any:
    """`full`, or a list such as `full, window 4096 0, recurrent, shared 0`."""
    words = head.words.get("layers")
    if words is None or words == "full":
        return words
    out: List[Dict[str, Any]] = []
    for layer in words.split(","):
        parts = layer.split()
        numbers = [int(p) for p in parts[1:] if re.fullmatch(r"[0-9]{1,9}", p)]
        if parts[:1] == ["window"] and 1 <= len(numbers) == len(parts) - 1 <= 2:
            out.append({"kind": "window", "window": numbers[0], "slack": (numbers + [0])[1]})
        elif parts[:1] == ["shared"] and len(numbers) == len(parts) - 1 == 1:
            out.append({"kind": "shared", "owner": numbers[0]})
        elif len(parts) == 1 and parts[0] in ("full", "recurrent", "none"):
            out.append({"kind": parts[0]})
        else:
            raise head.error("layers", "%.60r is not full, recurrent, none, window SIZE [SLACK], shared OWNER" % layer)
    return out


_PREFIXED = re.compile(r"(after|cap|accumulated|scale|codes)\.(\w+)$")


def _hook(section: _Section) -> Hook:
    event = section.name.split()[0]
    if event not in EVENTS:
        raise ProbeError(
            "%s: [%s]: a hook is one of %s, with a word behind it where there are several"
            % (section.path, section.name, ", ".join(EVENTS))
        )
    _expect_place(section)
    reads: Dict[str, ex.Node] = {}
    after: Dict[str, ex.Node] = {}
    caps: Dict[str, int] = {}
    accumulators: Dict[str, Accumulator] = {}
    codes: Dict[str, Dict[int, str]] = {}
    conditions: Dict[str, ex.Node] = {}
    scale = section.number("scale", 1.0)
    for key in section.words:
        prefixed = _PREFIXED.match(key)
        if prefixed is not None:
            kind, field = prefixed.groups()
            if kind == "after":
                if field not in _AFTER:
                    raise section.error(key, "not known here; known are %s" % ", ".join(_AFTER))
                after[field] = section.expression(key)
            elif kind == "cap":
                caps[field] = _cap(section, key)
            elif kind == "accumulated":
                _expect_time(section, key, field)
                accumulators[field] = Accumulator(section.expression(key), section.number("scale." + field, scale))
            elif kind == "codes":
                codes[field] = _codes(section, key, field)
        elif key in _SEEN_AT[event] or (key in ("phase", "finish") and event in ("forward", "finish")):
            reads[key] = section.expression(key)
        elif key in _CONDITIONS and (event == "forward" or (key, event) == ("slot", "shift")):
            conditions[key] = section.expression(key)
        elif key not in _HOOK_KEYS:
            known = list(_SEEN_AT[event]) + ["function", "file", "cap.FIELD", "accumulated.FIELD", "scale.FIELD"]
            known += list(_CONDITIONS) if event == "forward" else []
            raise section.error(key, "not known here; known are %s" % ", ".join(known))
    return Hook(
        event,
        section.name,
        section.words["function"],
        section.words.get("file"),
        reads,
        after,
        caps,
        accumulators,
        codes,
        conditions,
        section.words,
    )


def expressions_of(hook: Hook, facts: Dict[str, ex.Node]) -> Dict[str, ex.Node]:
    """Every expression of a hook as group.field; facts belong to forward hooks."""
    out: Dict[str, ex.Node] = {"when." + k: v for k, v in hook.conditions.items()}
    out.update({"reads." + k: v for k, v in hook.reads.items()})
    out.update({"after." + k: v for k, v in hook.after.items()})
    out.update({"sums." + k: a.node for k, a in hook.accumulators.items()})
    if hook.event == "forward":
        out.update({"facts." + k: v for k, v in facts.items()})
    return out


_KEYS = {"reads": "", "when": "", "after": "after.", "sums": "accumulated.", "facts": ""}


def written(probe: Probe, hook: Hook, name: str) -> Tuple[str, str, str]:
    """(section, key, expression) of a group.field as they stand in the file."""
    group, _, field = name.partition(".")
    key = _KEYS[group] + field
    section, texts = ("probe", probe.texts) if group == "facts" else (hook.section, hook.texts)
    return section, key, texts.get(key, "")


_GROUP = re.compile(r"<[^<>()]*>|\([^<>()]*\)( const)?")
_PART = r"(?:~?[A-Za-z_][\w$.]*|\{impl#[0-9]+\})"  # the latter: a trait's functions in Rust
_FUNCTION = re.compile(r"(::)?%s(::%s)*" % (_PART, _PART))
_OPERATOR = re.compile(r"(^|::)operator *(\(\)|\[\]|->\*?|[-+*/%^&|~!=<>,]+|new|delete)")


def _expect_place(section: _Section) -> None:
    """`function` names one, or is a /regex/: what is no name would only fail inside gdb, again and again."""
    name, file = section.words.get("function", ""), section.words.get("file", "")
    if not name:
        raise section.error("function", "missing: where should it hook?")
    pattern = _pattern(name)
    if pattern is not None:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise section.error("function", "%s is not a regular expression: %s" % (name, error)) from None
    elif len(name) > _LONGEST_NAME or not _FUNCTION.fullmatch(plain_name(name)):
        raise section.error("function", "%.60r is not the name of a function, nor a /regex/" % name)
    if re.search(r"[\"'\s]|^-", file):
        raise section.error("file", "%.60r is not a source file's name" % file)


def _pattern(function: str) -> Optional[str]:
    return function[1:-1] if len(function) > 2 and function[0] == function[-1] == "/" else None


def plain_name(function: str) -> str:
    """A C++ name without parameters, template arguments and unnamed namespaces, which gdb lets one leave out."""
    name = _OPERATOR.sub(r"\1operator_", function).replace("(anonymous namespace)::", "")
    while _GROUP.search(name):
        name = _GROUP.sub("", name)
    return name


def _cap(section: _Section, key: str) -> int:
    cap = section.number(key, 0)
    if not 0 <= cap <= MOST_ELEMENTS:
        raise section.error(key, "not between 0 and %d" % MOST_ELEMENTS)
    return int(cap)


def _expect_time(section: _Section, key: str, field: str) -> None:
    known = fields.FIELDS.get(field)
    if known is None or known.unit != "ms":
        raise section.error(key, "%s is not a time field" % field)


def _codes(section: _Section, key: str, field: str) -> Dict[int, str]:
    """`1 eos, 2 length`: what the program's numbers mean."""
    names = {"phase": fields.PHASES, "finish": fields.FINISH}.get(field)
    if names is None:
        raise section.error(key, "only phase and finish have codes")
    out: Dict[int, str] = {}
    for pair in section.words[key].split(","):
        parts: Tuple[str, ...] = tuple(pair.split())
        if len(parts) != 2 or not re.fullmatch(r"-?[0-9]{1,18}", parts[0]) or parts[1] not in names:
            raise section.error(key, "%.60r is not a number and one of %s" % (pair.strip(), ", ".join(names)))
        out[int(parts[0])] = parts[1]
    return out
