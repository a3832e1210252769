"""A first hook spec from a binary alone: which function is the forward, and which members count what.

Engines name these things alike. A function is a likely forward by its name, by what its arguments point to, and by the
tokens it is given; the words below are in order of trust. What could be meant in two ways is written as a comment.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gdb_scripts.layout import Absent, Type
from inspector.binary import Binary, BinaryError, Function, Parameter, damage_is_said
from inspector.binary.types import enumerators

FORWARD_NAMES = (
    (r"forward|process_ubatch", 10),
    (r"\w*_forward|forward_\w+|transformer", 9),
    (r"decode|decode_\w+|\w+_decode|decode\w*[Ss]tep", 7),
    (r"eval|\w+_eval|model_eval\w*|infer|inference|\w+_infer", 6),
    (r"step|\w+_step|[Ff]orward\w*|run_model|[Dd]ecode\w+", 5),
)
PARTS = re.compile(
    r"layer|block|attn|attention|mlp|ffn|norm|rope|embed|linear|matmul|conv|softmax|expert|logits|utf|json|base64|"
    r"image|audio|string|url|char",
    re.IGNORECASE,
)
OF_LIBRARY = re.compile(r"(?:std|core|alloc)::|__gnu_cxx::")
LENGTHS = ("seq_len", "n_past", "kv_len", "cur_len", "past_len", "n_cached", "seq_length", "n_ctx_used", "context_len",
           "cur_pos", "position", "pos", "kv_pos", "length", "len")  # fmt: skip
ROWS = ("cache_len", "cache_lens", "kv_len", "kv_lens", "kv_length", "layer_len", "cache_rows", "n_cached", "kv_used",
        "n_kv", "used", "rows", "head")  # fmt: skip
LAYERS = ("n_layers", "n_layer", "num_layers", "num_hidden_layers", "nlayers", "layer_count", "L")
FACTS = {
    "vocab_size": ("vocab_size", "n_vocab", "vocab", "nvocab"),
    "capacity": ("capacity", "max_kv_slots", "kv_capacity", "cache_capacity", "n_ctx", "max_seq_len", "ctx_size",
                 "context_length", "max_len"),
    "n_heads": ("n_heads", "n_head", "num_heads", "num_attention_heads", "heads"),
    "n_kv_heads": ("n_kv_heads", "n_head_kv", "num_kv_heads", "num_key_value_heads", "kv_heads"),
    "head_dim": ("head_dim", "head_size", "d_head", "n_embd_head"),
    "max_new_tokens": ("max_new_tokens", "n_predict", "max_tokens"),
}  # fmt: skip
EOS, N_EOS = ("eos", "eos_id", "eos_ids", "eos_token_id", "eos_token", "stop_ids"), ("n_eos", "eos_count", "num_eos")
SEQUENCE = ("seq_id", "request_id", "sequence_id")
ROTARY = ("mrope_pos", "rope_pos", "rotary_pos", "pos")
WRITE_POS, HIDDEN = ("write_pos", "kv_head", "cache_head"), ("hidden_rms", "layer_rms")
TIMERS = {"qkv_ms": "qkv", "attn_ms": "attn|attention", "o_ms": "o|out|wo|o_proj", "gate_up_ms": "gu|gate_up|gateup",
          "down_ms": "down|wd", "lm_head_ms": "lm|lm_head|logits|head"}  # fmt: skip
TOKEN = ("token_id", "token", "tok", "next_token", "input_id", "id")
TOKENS = ("tokens", "token_ids", "ids", "input_ids", "toks", "token", "tok", "input")
COUNTS = ("n_tokens", "n", "num_tokens", "n_toks", "n_tok", "n_ids", "count", "len", "length", "seq", "batch_size")
PROMPT, N_PROMPT = ("prompt", "prompt_ids", "tokens", "ids"), ("n_prompt", "prompt_len", "n_tokens", "n", "len")
REQUESTS = r"(?:\w+_)?(?:begin|start|new|submit|add)_(?:request|sequence|generation|prompt)"
FINISHES = r"(?:\w+_)?(?:finish|end|complete)_(?:request|sequence|generation)"
OF_LAYERS = re.compile(r"cache|kv|layer|block", re.IGNORECASE)
ASKED = {
    "seq_before": "the tokens that the sequence holds at the function's entry",
    "cache_before": "the rows in each layer's cache at its entry: st->rows[:LAYERS], st->layers[:LAYERS].used",
    "token_id": "the token that is fed, the first of several: tokens[0]",
    "n_tokens": "how many are fed",
}
CONTAINERS = (("_M_impl._M_start", "_M_impl._M_finish - {0}_M_impl._M_start"), ("__begin_", "__end_ - {0}__begin_"),
              ("_M_ptr", "_M_extent._M_extent_value"), ("__data_", "__size_"), ("__data", "__size"),
              ("data_ptr", "length"))  # fmt: skip
"""Where the elements of a std::vector and a std::span are (libstdc++, libc++) and of a slice in Rust, and how many"""
ARRAYS = ("_M_elems", "__elems_")
"""The only member of a std::array"""
INTO = re.compile(r"cfg|conf|param|cache|kv|model|mem|ctx|context|state|hyper|rt|run", re.IGNORECASE)

_MOST_FUNCTIONS, _MOST_MEMBERS, _SECONDS = 300, 2000, 20.0
_SURE = 12


@dataclass(frozen=True)
class Seen:
    """A number, or something that points to numbers, that an expression reaches. count: how many, of a container."""

    expression: str
    name: str
    type: Type
    count: str = ""

    @property
    def word(self) -> str:
        """The name as the words of this module are written: `m_seqLen`, `seq_len_` are seq_len."""
        bare = re.sub(r"^(?:m_|_+)|_+$", "", self.name)
        return bare if bare.isupper() else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare).lower()


@dataclass
class Candidate:
    """A function that may be the forward. reads: field -> expression; facts: for [probe]; maybe: (key, expression,
    what to make sure of)."""

    function: Function
    parameters: list[Parameter]
    score: int
    reads: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    maybe: list[tuple[str, str, str]] = field(default_factory=list)


def candidates(binary: Binary) -> list[Candidate]:
    """Likely forwards, the likeliest first. Raises BinaryError where nothing has such a name."""
    deadline = time.monotonic() + _SECONDS
    with damage_is_said(binary.path):
        named = sorted(((_name_score(n), n) for n in binary.function_names() if _name_score(n)), reverse=True)
        found = []
        for score, name in named[:_MOST_FUNCTIONS]:
            own = [f for f in binary.functions_called(name) if not OF_LIBRARY.match(f.qualified)]
            found += [_judged(binary, function, score) for function in own]
            if time.monotonic() > deadline:
                break
    if not found:
        raise BinaryError(
            f"{binary.path}: no function is called like a forward (forward, decode, eval, step …), or it was inlined: "
            "keep it out of line with __attribute__((noinline)), or write the spec by hand as docs/gdb.md shows"
        )
    return sorted(found, key=lambda c: (-c.score, c.function.qualified))


def _name_score(name: str) -> int:
    bare = name.split("<")[0]
    score = next((s for pattern, s in FORWARD_NAMES if re.fullmatch(pattern, bare)), 0)
    return score and max(1, score - (6 if PARTS.search(bare) else 0))


def _judged(binary: Binary, function: Function, score: int) -> Candidate:
    parameters = binary.parameters(function)
    out = Candidate(function, parameters, score)
    seen = list(reached(parameters))
    _read_tokens(out, seen)
    _read_lengths(out, seen)
    _read_facts(out, seen)
    return out


def reached(parameters: Iterable[Parameter]) -> Iterator[Seen]:
    """What can be read from the arguments: themselves, members of what they point to, and one or two levels deeper."""
    left = _MOST_MEMBERS
    for parameter in parameters:
        if not parameter.name:
            continue
        yield _seen(parameter.name, parameter.name, parameter.type)
        for seen in _members(parameter.name, parameter.type, 0):
            left -= 1
            if left < 0:
                return
            yield seen


def _members(expression: str, kind: Type, depth: int) -> Iterator[Seen]:
    holder, join = _held(kind)
    if _contents(expression + join, holder) is not None:
        return  # what a container is made of counts nothing else
    members = _members_of(holder)
    for name, (_, member) in members.items():
        yield _seen(expression + join + name, name, member)
    for name, (_, member) in members.items():
        if depth < 2 and (member.kind == "struct" or (member.kind == "pointer" and INTO.search(name))):
            yield from _members(expression + join + name, member, depth + 1)


def _seen(expression: str, name: str, kind: Type) -> Seen:
    """As it stands, or the elements of a container."""
    holder, join = _held(kind)
    contents = _contents(expression + join, holder)
    return Seen(expression, name, kind) if contents is None else Seen(contents[0], name, contents[1], contents[2])


def _held(kind: Type) -> tuple[Type, str]:
    """What a pointer, a reference or a reference to a pointer leads to, and how C writes its member."""
    try:
        if kind.kind == "reference":
            kind = kind.target
        return (kind.target, "->") if kind.kind == "pointer" else (kind, ".")
    except Absent:
        return Type("other", 0), "."  # only declared here: nothing to look into


def _members_of(holder: Type) -> dict[str, tuple[int, Type]]:
    try:
        return holder.members if holder.kind == "struct" else {}
    except Absent:
        return {}


def _contents(prefix: str, holder: Type) -> tuple[str, Type, str] | None:
    """(first element, its pointer's or array's type, how many) where the struct is a container."""
    for name in ARRAYS:
        elements = _members_of(holder).get(name, (0, Type("other", 0)))[1]
        if elements.kind == "array" and _target(elements).size:
            return prefix + name, elements, str(elements.size // _target(elements).size)
    for data, count in CONTAINERS:
        kind = holder
        for name in data.split("."):
            kind = _members_of(kind).get(name, (0, Type("other", 0)))[1]
        if kind.kind == "pointer" and count.partition(" ")[0].partition(".")[0] in _members_of(holder):
            return prefix + data, kind, prefix + count.format(prefix)
    return None


def _is_count(kind: Type) -> bool:
    return kind.kind in ("int", "uint") and kind.size in (2, 4, 8)


def _are_counts(kind: Type) -> bool:
    return kind.kind in ("pointer", "array") and _is_count(_target(kind))


def _target(kind: Type) -> Type:
    try:
        return kind.target
    except Absent:
        return Type("other", 0)


def _first(seen: list[Seen], names: Iterable[str], fits: object = _is_count) -> str | None:
    """The expression of the most trusted name, the shallowest where several have it."""
    assert callable(fits)
    for name in names:
        hits = [s.expression for s in seen if name in (s.name, s.word) and fits(s.type)]
        if hits:
            return min(hits, key=lambda e: e.count("->") + e.count("."))
    return None


def _read_tokens(out: Candidate, seen: list[Seen]) -> None:
    arguments = [s for s in seen if s.expression == s.name]
    one, several = _first(arguments, TOKEN), _first(arguments, TOKENS, _are_counts)
    count = _first(arguments, COUNTS)
    if several is None:
        held = [s for s in seen if s.count and re.split(r"\.|->", s.expression)[0] == s.name]
        several = _first(held, TOKENS, _are_counts)
        count = next((s.count for s in held if s.expression == several), count)
    if several is None and one is None:
        members = [s for s in seen if s.expression != s.name and re.fullmatch(r"\w+(?:\.|->)\w+", s.expression)]
        several = _first(members, TOKENS, _are_counts)
        holder = re.split(r"\.|->", several)[0] if several else ""
        count = _first([s for s in members if re.split(r"\.|->", s.expression)[0] == holder], COUNTS)
    if several is not None:
        out.reads["token_id"] = f"{several}[0]"
        out.score += 4
    elif one is not None:
        out.reads["token_id"], out.reads["n_tokens"] = one, "1"
        out.score += 4
    if several is not None and count is not None:
        out.reads["n_tokens"] = count
        out.score += 2


def _read_lengths(out: Candidate, seen: list[Seen]) -> None:
    members = [s for s in seen if s.expression != s.name]
    layers = _first(members, LAYERS)
    length = _first(members, LENGTHS) or _first([s for s in seen if s.expression == s.name], LENGTHS)
    rows, whole = _first(members, ROWS, _are_counts), _first(members, ROWS)
    if length is None:
        positions = _first(members, ("pos", "positions", "position"), _are_counts)
        length = f"{positions}[0]" if positions else None
    if length is not None:
        out.reads["seq_before"] = length
        out.score += 6
    if layers is not None:
        out.facts["n_layers"] = layers
        out.score += 3
    in_structs = _rows_in_structs(members, layers)
    if rows is not None and layers is None:
        layers = next((s.count for s in members if s.expression == rows), "") or None
    if rows is not None and layers is not None:
        out.reads["cache_before"], out.facts["n_layers"] = f"{rows}[:{layers}]", layers
        out.score += 6
    elif in_structs is not None:
        out.reads["cache_before"], out.facts["n_layers"] = in_structs
        out.score += 6
    elif whole is not None and whole != length:
        out.reads["cache_before"] = whole
        out.score += 3
    sequence = _first(members, SEQUENCE)
    if sequence is not None:
        out.reads["seq_id"] = sequence


def _rows_in_structs(members: list[Seen], layers: str | None) -> tuple[str, str] | None:
    """(`m->cache[:3].used`, the number of layers) where each layer has a struct, or a pointer to one, of its own."""
    for seen in members:
        if seen.type.kind not in ("array", "pointer") or not OF_LAYERS.search(seen.name):
            continue
        element = _target(seen.type)
        rows = _first(list(_members("", element, 1)), (*ROWS, *LENGTHS))
        in_place = str(seen.type.size // element.size) if seen.type.kind == "array" and element.size else None
        n = layers or seen.count or in_place
        if rows is not None and n is not None and element.kind in ("struct", "pointer"):
            return f"{seen.expression}[:{n}]{rows}", n
    return None


def _read_facts(out: Candidate, seen: list[Seen]) -> None:
    members = [s for s in seen if s.expression != s.name]
    for fact, names in FACTS.items():
        found = _first(members, names)
        if found is not None:
            out.facts[fact] = found
            out.score += 1
    ends, n_ends, end = _first(members, EOS, _are_counts), _first(members, N_EOS), _first(members, EOS)
    if ends is not None and n_ends is not None:
        out.facts["eos"] = f"{ends}[:{n_ends}]"
    elif end is not None:
        out.facts["eos"] = end
    layers = out.facts.get("n_layers")
    write_pos, rotary = _first(members, WRITE_POS), _first(members, ROTARY)
    hidden = _first(members, HIDDEN, lambda t: t.kind in ("pointer", "array") and _target(t).kind == "float")
    if write_pos is not None:
        out.maybe.append(("after.write_pos", write_pos, "is it layer 0's row of the last forward's first token?"))
    if hidden is not None and layers is not None:
        out.maybe.append(("after.hidden_rms", f"{hidden}[:{layers}]", "is it the residual stream's rms, a layer?"))
    if rotary is not None and rotary != out.reads.get("seq_before"):
        out.maybe.append(("pos", rotary, "is it the rotary position of the step's first token?"))
    out.maybe += _timers(members)


def _timers(members: list[Seen]) -> list[tuple[str, str, str]]:
    out = []
    for time_field, words in TIMERS.items():
        pattern = rf"(?:\w*_)?(?:t|ms|time|us|ns)_(?:{words})|(?:\w+_)?(?:{words})_(?:ms|t|time|us|ns|sec)"
        for seen in members:
            if seen.type.kind == "float" and re.fullmatch(pattern, seen.word):
                out.append((f"accumulated.{time_field}", seen.expression, "does it add up? `scale` turns it into ms"))
                break
    return out


# -- the other hooks ---------------------------------------------------------------------------------------------------


def other_hooks(binary: Binary, state: Candidate) -> list[tuple[str, Function, dict[str, str]]]:
    """(event, function, reads) where a function begins or ends a request, by its name."""
    out = []
    with damage_is_said(binary.path):
        for event, pattern in (("request", REQUESTS), ("finish", FINISHES)):
            for name in sorted(n for n in binary.function_names() if re.fullmatch(pattern, n)):
                for function in binary.functions_called(name)[:1]:
                    reads = _other_reads(event, binary.parameters(function), state)
                    if reads:
                        out.append((event, function, reads))
    return out


def _other_reads(event: str, parameters: list[Parameter], state: Candidate) -> dict[str, str]:
    seen = list(reached(parameters))
    arguments = [s for s in seen if s.expression == s.name]
    reads = {}
    sequence = _first(arguments, SEQUENCE) or _first(seen, SEQUENCE)
    if "seq_id" in state.reads and sequence is None:
        return {}  # its forwards tell sequences apart, and this could not say which one it is about
    if "seq_id" in state.reads and sequence is not None:
        reads["seq_id"] = sequence
    if event == "request":
        prompt, n_prompt = _first(arguments, PROMPT, _are_counts), _first(arguments, N_PROMPT)
        limit = _first(arguments, FACTS["max_new_tokens"])
        if n_prompt is not None:
            reads["prompt_tokens"] = n_prompt
        if limit is not None:
            reads["max_new_tokens"] = limit
        if prompt is not None and n_prompt is not None:
            reads["prompt_ids"], reads["cap.prompt_ids"] = f"{prompt}[:{n_prompt}]", "100000"
        return reads if n_prompt is not None else {}
    token = _first(arguments, TOKEN)
    if token is not None:
        reads["token_id"] = token
    reads.update(_codes(parameters))
    for name in ("seq_before", "cache_before"):
        known = state.reads.get(name, "")
        base = re.match(r"\w+", known)
        if base is not None and any(p.name == base.group() for p in parameters):
            reads[name] = known
    return reads if token is not None else {}


def _codes(parameters: list[Parameter]) -> dict[str, str]:
    """Why a sequence ended: with the names of an enumeration translated, else as the trace numbers it."""
    for parameter in parameters:
        if re.fullmatch(r"finish(?:_reason)?|reason|why|stop_reason", parameter.name) and _is_count(parameter.type):
            words = {"eos": r"eos|stop|end", "length": r"length|limit|max", "abort": r"abort|cancel|interrupt",
                     "capacity": r"capacity|full|context", "error": r"err|fail"}  # fmt: skip
            codes = [
                f"{value} {word}"
                for name, value in enumerators(parameter.die.first_refer("type")).items()
                for word, pattern in words.items()
                if re.search(pattern, name, re.IGNORECASE)
            ]
            return {"finish": parameter.name, **({"codes.finish": ", ".join(codes)} if codes else {})}
    return {}


# -- as text -----------------------------------------------------------------------------------------------------------


def spec(binary: Binary, found: list[Candidate], name: str) -> str:
    """The text of a hook spec for the likeliest candidate; the others stand in comments."""
    best = found[0]
    lines = [
        f"# Drafted from {name} (build id {binary.build_id or 'none'}) by names alone: read it against the source.",
        "# Check it with: stepscope probe verify BINARY THIS_FILE",
        "",
        "[probe]",
        f"name = {re.sub(r'[^A-Za-z0-9_-]+', '_', name)}",
        f"about = {signature(best)}",
        *_about_layers(best),
        *(f"{key} = {expression}" for key, expression in best.facts.items()),
        "",
    ]
    if best.score < _SURE:
        lines.insert(2, "# Nothing looked much like a forward: this is a guess.")
    others = other_hooks(binary, best)
    for event, function, reads in others:
        if event == "request":
            lines += [f"[{event}]", f"function = {function.qualified}", *_lines(reads), ""]
    lines += ["[forward]", *_place(binary, best.function), *_lines(best.reads), *_comments(best), ""]
    for event, function, reads in others:
        if event == "finish":
            lines += [f"[{event}]", f"function = {function.qualified}", *_lines(reads), ""]
    if len(found) > 1:
        lines += ["# Other functions that may be the forward:"]
        lines += [f"#   {signature(c)}" for c in found[1:8]]
        lines += [""]
    return "\n".join(lines)


def _about_layers(best: Candidate) -> list[str]:
    if "[" in best.reads.get("cache_before", ""):
        return [
            "# every layer keeps a cache of the whole sequence; else: full, window SIZE, recurrent, …",
            "layers = full",
        ]
    return ["# layers = full"]


def _place(binary: Binary, function: Function) -> list[str]:
    lines = [f"function = {function.qualified}"]
    same = binary.functions(function.qualified)
    if len(same) > 1:
        lines.append(f"# {len(same)} functions have this name: all of them are hooked; `file = …` chooses")
    return lines


def _lines(reads: dict[str, str]) -> list[str]:
    return [f"{key} = {expression}" for key, expression in reads.items()]


def _comments(best: Candidate) -> list[str]:
    lines = [f"# {name} = ?  {what}" for name, what in ASKED.items() if name not in best.reads]
    for key, expression, question in best.maybe:
        lines += [f"# {question}", f"# {key} = {expression}"]
    return lines


def signature(candidate: Candidate) -> str:
    """`forward(struct state * st, int32_t * tokens, int n)  forward.c:312`"""
    parts = ", ".join(f"{p.type.name} {p.name}" for p in candidate.parameters)
    function = candidate.function
    place = f"  {function.file.rsplit('/', 1)[-1]}:{function.line}" if function.file else ""
    return f"{function.qualified}({parts}){place}".replace("\n", " ")
