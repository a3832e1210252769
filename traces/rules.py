"""The invariants of a token loop, each declared once.

A rule's tests are expressions over a step and its context (see context.View for the names). They use only operators, so
they work alike on plain ints (one step, live, in gdb) and on numpy columns (a whole trace at once). Counts that are
absent are -1, ids the smallest I64, times NaN. Between bools `a > b` says: a and not b.

A test returns `(known, ok)`: what could be judged, and what of it holds. Not known is never a pass. What depends on the
run alone (`concerns`, `can_tell`) is asked once a run and costs a step nothing.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from traces.fields import ABSENT_I64, PHASES

Claim = Tuple[Any, Any]
"""(known, ok): two bools, or two columns of bools"""


class Finding(NamedTuple):
    """What was wrong at one step: the numbers, and the words after 'KV03 step 41 seq 0: '."""

    layer: Optional[int]
    expected: Any
    seen: Any
    text: str


class Case(NamedTuple):
    """Steps of one kind that a rule judges, and its test for them. Elsewhere the rule does not apply.

    when: the name of what is true, or not 0, at those steps (see context.View).
    """

    when: str
    test: Callable[[Any], Claim]


def _any_run(facts: Any) -> bool:
    return True


class Rule(NamedTuple):
    """One invariant.

    needs: fields and facts that the tests read, for saying why a verdict is unknown.
    cases: no step belongs to two of them.
    explain: the numbers of one failing step (plain ints).
    concerns: whether a run (context.Facts) has anything for the rule to judge.
    can_tell: whether a run says and records what no verdict goes without; else every one is unknown.
    at_previous: the fault belongs to the step before the one that reveals it.
    """

    code: str
    name: str
    statement: str
    needs: Tuple[str, ...]
    fault: str
    cases: Tuple[Case, ...]
    explain: Callable[[Any], Finding]
    concerns: Callable[[Any], bool] = _any_run
    can_tell: Callable[[Any], bool] = _any_run
    at_previous: bool = False


def negation(claim: Any) -> Any:
    """`not` for a bool or a column of bools: ~True is -2 on plain ints."""
    return claim < True


def pick(condition: Any, yes: Any, no: Any) -> Any:
    """`yes if condition else no` for ints or columns of ints (not for times: NaN would spread)."""
    return no + condition * (yes - no)


def both(*claims: Claim) -> Claim:
    """All of them: one known failure decides, else every part must be known."""
    known: Any = True
    failed: Any = False
    for part_known, part_ok in claims:
        failed = failed | (part_known > part_ok)
        known = known & part_known
    return known | failed, negation(failed)


def given(condition: Any, claim: Claim) -> Claim:
    """The claim where `condition` holds, nothing to say elsewhere."""
    return claim[0] | negation(condition), claim[1] | negation(condition)


_DECODE = PHASES["decode"]


# -- concerns, can_tell: which runs ----------------------------------------------------------------------------------


def _full(facts: Any) -> bool:
    """Full layers are there, or nobody said which layers are what: then the test is unknown, not silent."""
    return facts.has_full or not facts.layers_known


def _layers_known(facts: Any) -> bool:
    return bool(facts.layers_known)


# --------------------------------------------------------------------------------------------------------------------


def _plural(n: Any, word: str) -> str:
    return "%s %s%s" % (n, word, "" if n == 1 else "s")


# -- KV01 ------------------------------------------------------------------------------------------------------------


def _kv01(s: Any) -> Claim:
    after = (s.seq_len >= 0) & (s.cache_first >= 0)
    before = (s.seq_before >= 0) & (s.before_first >= 0)
    agrees = (after & (s.seq_len == s.cache_first)) | ((before > after) & (s.seq_before == s.before_first))
    return after | before, agrees


def _kv01_explain(s: Any) -> Finding:
    if s.seq_len >= 0 and s.cache_first >= 0:
        text = "seq_len is %d, layer %d holds %s" % (s.seq_len, s.facts.first_full, _plural(s.cache_first, "row"))
        return Finding(s.facts.first_full, s.seq_len, s.cache_first, text)
    text = "seq_before is %d, layer %d held %s" % (s.seq_before, s.facts.first_full, _plural(s.before_first, "row"))
    return Finding(s.facts.first_full, s.seq_before, s.before_first, text)


# -- KV02 ------------------------------------------------------------------------------------------------------------


def _kv02(s: Any) -> Claim:
    after = (s.cache_min >= 0) & (s.cache_min != s.cache_max)
    differ = after | ((s.before_min >= 0) & (s.before_min != s.before_max))
    all_seen = ((s.cache_unseen == 0) & (s.cache_min >= 0)) | ((s.before_unseen == 0) & (s.before_min >= 0))
    return all_seen | differ, negation(differ)


def _kv02_explain(s: Any) -> Finding:
    after = s.cache_min != s.cache_max
    rows, word, length = (s.cache_rows, "holds", s.seq_len) if after else (s.before_rows, "held", s.seq_before)
    seen = [(layer, rows[layer]) for layer in s.facts.full_layers if layer < len(rows) and rows[layer] >= 0]
    counts = [count for _, count in seen]
    usual = max(sorted(set(counts)), key=lambda count: (counts.count(count), count == length))
    layer, count = next((layer, count) for layer, count in seen if count != usual)
    others = sum(1 for other in counts if other == usual)
    text = "layer %d %s %s, %d other full layers %d" % (layer, word, _plural(count, "row"), others, usual)
    return Finding(layer, usual, count, text)


# -- KV03 ------------------------------------------------------------------------------------------------------------


def _kv03(s: Any) -> Claim:
    lengths = (s.seq_len >= 0) & (s.seq_before >= 0) & (s.n_tokens >= 0)
    grew = s.seq_len - s.seq_before
    if s.facts.naive:
        return lengths, grew == pick(s.is_prefill, s.n_tokens, s.n_tokens > 0)
    return lengths, (grew == s.n_tokens) & ((s.phase != _DECODE) | (s.n_tokens <= 1))


def _kv03_verify(s: Any) -> Claim:
    if s.facts.naive:
        return _kv03(s)
    drafts = (s.n_drafted >= 0) & (s.n_accepted >= 0), s.n_accepted <= s.n_drafted
    fed = (s.n_tokens >= 0) & (s.n_drafted >= 0), s.n_tokens == 1 + s.n_drafted
    lengths = (s.seq_len >= 0) & (s.seq_before >= 0) & (s.n_tokens >= 0)
    kept = lengths & (s.n_accepted >= 0), s.seq_len - s.seq_before == 1 + s.n_accepted
    return both(fed, kept, drafts)


def _kv03_explain(s: Any) -> Finding:
    grew = s.seq_len - s.seq_before
    if s.is_verify:
        if s.n_tokens >= 0 and s.n_drafted >= 0 and s.n_tokens != 1 + s.n_drafted:
            text = "fed %d with %s: expected %d" % (s.n_tokens, _plural(s.n_drafted, "draft"), 1 + s.n_drafted)
            return Finding(None, 1 + s.n_drafted, s.n_tokens, text)
        if s.n_accepted > s.n_drafted >= 0:
            text = "accepted %d of %s" % (s.n_accepted, _plural(s.n_drafted, "draft"))
            return Finding(None, s.n_drafted, s.n_accepted, text)
        expected = 1 + s.n_accepted
        text = "grew by %d, fed %d with %d accepted: expected %d" % (grew, s.n_tokens, s.n_accepted, expected)
        return Finding(None, expected, grew, text)
    if s.facts.naive and not s.is_prefill:
        expected = int(s.n_tokens > 0)
        return Finding(None, expected, grew, "grew by %d in the naive loop: expected %d" % (grew, expected))
    if s.is_decode and s.n_tokens > 1:
        text = "a decode step fed %d and grew by %d: it feeds 1 token, or 0" % (s.n_tokens, grew)
        return Finding(None, 1, s.n_tokens, text)
    text = "grew by %d, fed %d: expected %d" % (grew, s.n_tokens, s.n_tokens)
    return Finding(None, s.n_tokens, grew, text)


# -- KV04 ------------------------------------------------------------------------------------------------------------


def _kv04(s: Any) -> Claim:
    return (s.seq_before >= 0) & (s.prev_len >= s.removed) > s.gap, s.seq_before == s.prev_len - s.removed


def _kv04_first(s: Any) -> Claim:
    return (s.seq_before >= 0) & (s.n_reused >= 0) > s.gap, s.seq_before == s.n_reused


def _kv04_explain(s: Any) -> Finding:
    if s.first:
        text = "starts at %d with %s reused: expected %d" % (s.seq_before, s.n_reused, s.n_reused)
        return Finding(None, s.n_reused, s.seq_before, text)
    expected = s.prev_len - s.removed
    text = "starts at %d, the step before ended at %d" % (s.seq_before, s.prev_len)
    if s.removed:
        text += " and %d were removed since: expected %d" % (s.removed, expected)
    return Finding(None, expected, s.seq_before, text)


# -- KV05 ------------------------------------------------------------------------------------------------------------


def _kv05(s: Any) -> Claim:
    if s.facts.naive:
        return s.seq_len >= 0, s.seq_len <= s.facts.capacity
    return (s.seq_before >= 0) & (s.n_tokens >= 0), s.seq_before + s.n_tokens <= s.facts.capacity


def _kv05_explain(s: Any) -> Finding:
    reach = s.seq_len if s.facts.naive else s.seq_before + s.n_tokens
    text = "%d + %d fed = %d rows, the capacity is %d" % (s.seq_before, s.n_tokens, reach, s.facts.capacity)
    return Finding(None, s.facts.capacity, reach, text)


# -- KV06 ------------------------------------------------------------------------------------------------------------


def _at_most(a: Any, b: int) -> Any:
    return pick(a < b, a, b)


def _kv06(s: Any) -> Claim:
    claims: List[Claim] = []
    for group in s.windows:
        least, most = _at_most(s.seq_len, group.window), _at_most(s.seq_len, group.window + group.slack)
        seen = (s.seq_len >= 0) & (group.rows_min >= 0)
        inside = (group.rows_min >= least) & (group.rows_max <= most)
        claims.append((seen & ((group.unseen == 0) | negation(inside)), inside))
    return both(*claims)


def _kv06_explain(s: Any) -> Finding:
    for layer, window, slack in s.facts.window_layers:
        rows = s.cache_rows[layer]
        least, most = min(s.seq_len, window), min(s.seq_len, window + slack)
        if rows >= 0 and not least <= rows <= most:
            expected = str(least) if least == most else "%d to %d" % (least, most)
            text = "layer %d (window %d) holds %s at length %d: expected %s"
            text = text % (layer, window, _plural(rows, "row"), s.seq_len, expected)
            return Finding(layer, least if rows < least else most, rows, text)
    raise AssertionError("explained a window rule that held")


# -- KV07 ------------------------------------------------------------------------------------------------------------


def _kv07(s: Any) -> Claim:
    wanted = 1 + s.n_accepted
    grown = (s.growth_min == wanted) & (s.growth_max == wanted)
    layers = s.facts.layers_known & (s.n_accepted >= 0) & s.growth_known > s.gap, grown
    as_long = (s.draft_cache_len == s.seq_len) | (
        (s.draft_cache_len == s.seq_len - 1) & (s.n_accepted == s.n_drafted) & (s.n_accepted >= 0)
    )
    draft = s.seq_len >= 0, as_long
    return both(given(_full(s.facts), layers), given(s.draft_cache_len >= 0, draft))


def _kv07_explain(s: Any) -> Finding:
    wanted = 1 + s.n_accepted
    if s.growth_known and not s.gap and s.n_accepted >= 0:
        for layer, grew in s.growths:
            if grew != wanted:
                text = "layer %d grew by %d with %d accepted: expected %d" % (layer, grew, s.n_accepted, wanted)
                return Finding(layer, wanted, grew, text)
    text = "the draft model's cache holds %s, the sequence is %d long" % (_plural(s.draft_cache_len, "row"), s.seq_len)
    return Finding(None, s.seq_len, s.draft_cache_len, text)


# -- KV08 ------------------------------------------------------------------------------------------------------------


def _kv08(s: Any) -> Claim:
    once = s.shifts <= 1
    known = (s.prev_len >= 0) & (s.shift_discard >= 0) & (s.seq_before >= 0) & negation(s.gap)
    by_the_note = s.seq_before == s.prev_len - s.removed
    keeps = (s.shift_keep < 0) | (s.shift_keep + s.shift_discard <= s.prev_len)
    return both((True, once), given(once, (known, by_the_note & keeps)))


def _kv08_explain(s: Any) -> Finding:
    if s.shifts > 1:
        text = "a full context was shifted %d times before this step: expected once" % s.shifts
        return Finding(None, 1, s.shifts, text)
    expected = s.prev_len - s.removed
    text = "%d rows less %d discarded (keeping %d): expected %d, seen %d"
    text = text % (s.prev_len, s.shift_discard, max(s.shift_keep, 0), expected, s.seq_before)
    return Finding(None, expected, s.seq_before, text)


# -- KV09 ------------------------------------------------------------------------------------------------------------


def _kv09(s: Any) -> Claim:
    known = (s.n_reused >= 0) & (s.prompt_tokens >= 0) & s.prompt_fed_known & negation(s.gapped)
    # without a prefill step, it was either not recorded or, where all of the prompt was reused, not there
    known = known & (negation(s.first) | (s.n_reused >= s.prompt_tokens))
    return known, (s.n_reused + s.prompt_fed == s.prompt_tokens) & (s.prompt_fed >= 1)


def _kv09_explain(s: Any) -> Finding:
    total = s.n_reused + s.prompt_fed
    if total == s.prompt_tokens:
        return Finding(None, 1, s.prompt_fed, "all %d prompt tokens reused, none fed: expected 1 or more" % s.n_reused)
    text = "%d reused + %d fed = %d, the prompt has %d" % (s.n_reused, s.prompt_fed, total, s.prompt_tokens)
    return Finding(None, s.prompt_tokens, total, text)


# -- KV10 ------------------------------------------------------------------------------------------------------------


def _kv10(s: Any) -> Claim:
    recurrent = (s.recurrent_unseen == 0) | (s.recurrent_max > 0), s.recurrent_max <= 0
    shared = (s.shared_unseen == 0) | (s.shared_differ > 0), s.shared_differ == 0
    return both(given(s.facts.has_recurrent, recurrent), given(s.facts.has_shared, shared))


def _kv10_explain(s: Any) -> Finding:
    for layer in s.facts.recurrent_layers:
        rows = s.cache_rows[layer]
        if rows > 0:
            return Finding(layer, 0, rows, "layer %d is recurrent and holds %s" % (layer, _plural(rows, "row")))
    for layer, owner in s.facts.shared_layers:
        rows, owned = s.cache_rows[layer], s.cache_rows[owner]
        if rows >= 0 and owned >= 0 and rows != owned:
            text = "layer %d shares layer %d's cache and shows %d rows, not %d" % (layer, owner, rows, owned)
            return Finding(layer, owned, rows, text)
    raise AssertionError("explained a layer rule that held")


# -- KV11 ------------------------------------------------------------------------------------------------------------


def _kv11(s: Any) -> Claim:
    old_rows = s.old_rows
    known = (s.write_pos >= 0) & (old_rows >= 0) & (negation(s.gap) | (s.before_first >= 0))
    return known, s.write_pos == old_rows


def _kv11_explain(s: Any) -> Finding:
    text = "wrote row %d, layer %d held %s" % (s.write_pos, s.facts.first_full, _plural(s.old_rows, "row"))
    return Finding(s.facts.first_full, s.old_rows, s.write_pos, text)


# -- KV12 ------------------------------------------------------------------------------------------------------------


def _kv12(s: Any) -> Claim:
    known = (s.kv_used >= 0) & (s.kv_free >= 0)
    return known, s.kv_used + s.kv_free == s.pool_total


def _kv12_explain(s: Any) -> Finding:
    seen = s.kv_used + s.kv_free
    text = "%d used + %d free = %d, the pool has %d" % (s.kv_used, s.kv_free, seen, s.pool_total)
    return Finding(None, s.pool_total, seen, text)


# -- TK01 ------------------------------------------------------------------------------------------------------------


def _tk01(s: Any) -> Claim:
    return s.token_id != ABSENT_I64, (s.token_id >= 0) & (s.token_id < s.facts.vocab_size)


def _tk01_verify(s: Any) -> Claim:
    drafts = (s.n_drafted >= 0) & ((s.drafts_unseen == 0) | (s.drafts_outside > 0)), s.drafts_outside == 0
    return both(_tk01(s), drafts)


def _tk01_explain(s: Any) -> Finding:
    if not 0 <= s.token_id < s.facts.vocab_size and s.token_id != ABSENT_I64:
        text = "sampled id %d, the vocabulary has %d" % (s.token_id, s.facts.vocab_size)
        return Finding(None, s.facts.vocab_size, s.token_id, text)
    drafted = list(s.draft_ids)[: s.n_drafted]
    bad = next(i for i in drafted if i != ABSENT_I64 and not 0 <= i < s.facts.vocab_size)
    return Finding(None, s.facts.vocab_size, bad, "drafted id %d, the vocabulary has %d" % (bad, s.facts.vocab_size))


# -- TK02 ------------------------------------------------------------------------------------------------------------


def _tk02(s: Any) -> Claim:
    return s.phase_known, negation(s.finished)


def _tk02_verify(s: Any) -> Claim:
    block = s.facts.eos_known & (s.n_accepted >= 0) & (s.block_unseen == 0), s.eos_at >= s.n_accepted
    return both(_tk02(s), block)


def _tk02_explain(s: Any) -> Finding:
    if s.finished:
        return Finding(None, None, None, "the sequence had finished, or sampled an end token, before this step")
    follow = s.n_accepted - s.eos_at
    text = "an end token was accepted at place %d of the step, %s followed" % (s.eos_at, _plural(follow, "token"))
    return Finding(None, 0, follow, text)


# -- TK03 ------------------------------------------------------------------------------------------------------------


def _tk03(s: Any) -> Claim:
    return (s.max_new_tokens >= 0) & s.generated_known > s.gapped, s.generated <= s.max_new_tokens


def _tk03_explain(s: Any) -> Finding:
    text = "%s generated, %d allowed" % (_plural(s.generated, "token"), s.max_new_tokens)
    return Finding(None, s.max_new_tokens, s.generated, text)


# -- TK04 ------------------------------------------------------------------------------------------------------------


def _tk04(s: Any) -> Claim:
    known = (s.cache_first >= 0) & (s.n_reused >= 0) & s.kept_known > s.gapped
    return known, s.cache_first == s.n_reused + s.kept


def _tk04_explain(s: Any) -> Finding:
    expected = s.n_reused + s.kept
    text = "ended with %s in layer %d: %d reused + %d fed and kept = %d"
    text = text % (_plural(s.cache_first, "row"), s.facts.first_full, s.n_reused, s.kept, expected)
    return Finding(s.facts.first_full, expected, s.cache_first, text)


# -- TK05 ------------------------------------------------------------------------------------------------------------


def _tk05(s: Any) -> Claim:
    twice = (s.forward_id >= 0) & (s.forward_id == s.prev_forward_id)
    return (s.n_tokens >= 0) | twice, (s.n_tokens <= 1) > twice


def _tk05_explain(s: Any) -> Finding:
    if s.n_tokens > 1:
        return Finding(None, 1, s.n_tokens, "a decode step fed %d tokens: expected 1" % s.n_tokens)
    text = "two decode steps of the sequence share forward %d" % s.forward_id
    return Finding(None, None, s.forward_id, text)


# -- TM01 ------------------------------------------------------------------------------------------------------------


def _tm01(s: Any) -> Claim:
    return (s.t_ns >= 0) & (s.prev_t_ns >= 0) > s.gap, s.t_ns >= s.prev_t_ns


def _tm01_explain(s: Any) -> Finding:
    text = "began at %.3f ms, %.3f ms before the one before it" % (s.t_ns / 1e6, (s.prev_t_ns - s.t_ns) / 1e6)
    return Finding(None, s.prev_t_ns, s.t_ns, text)


# -- TM02 ------------------------------------------------------------------------------------------------------------

_SLACK = 1.001
_NESTED = (
    ("gemm", ("qkv", "o", "gate_up", "down")),
    ("forward", ("gemm", "attn", "lm_head")),
    ("total", ("forward", "sample")),
    ("total", ("gemm", "attn", "lm_head", "sample")),
)


def _present(time: Any) -> Any:
    return time == time  # NaN is absent


def _fits(s: Any, whole: str, parts: Tuple[str, ...]) -> Claim:
    outer = s.time(whole)
    total: Any = 0.0
    known: Any = False
    allowed: Any = outer * _SLACK
    for part in parts:
        time, values = s.time(part), s.time_values(part)
        known = known | _present(time)
        total = total + s.or_zero(time)
        allowed = allowed + s.facts.resolution_ms * values * _present(time)
    return _present(outer) & known, total <= allowed


def _tm02(s: Any) -> Claim:
    claims = [_fits(s, whole, parts) for whole, parts in _NESTED]
    excess = s.layer_excess
    claims.append((_present(excess), excess <= 4 * s.facts.resolution_ms))
    known: Any = False
    failed: Any = False
    for part_known, part_ok in claims:  # one pair that can be compared is enough to say something
        known = known | part_known
        failed = failed | (part_known > part_ok)
    return known, negation(failed)


def _tm02_explain(s: Any) -> Finding:
    for whole, parts in _NESTED:
        known, ok = _fits(s, whole, parts)
        if known and not ok:
            inside = [(p, s.time(p)) for p in parts if _present(s.time(p))]
            total = sum(t for _, t in inside)
            text = "%s = %.6g ms does not fit in %s = %.6g ms"
            text = text % (" + ".join("%s %.6g" % i for i in inside), total, whole, s.time(whole))
            return Finding(None, round(s.time(whole), 6), round(total, 6), text)
    layer, total, gemm = s.worst_layer
    text = "layer %d: qkv + o + gate_up + down = %.6g ms does not fit in gemm = %.6g ms" % (layer, total, gemm)
    return Finding(layer, round(gemm, 6), round(total, 6), text)


# -- SQ01 ------------------------------------------------------------------------------------------------------------


def _sq01(s: Any) -> Claim:
    near = negation(s.gap)
    grew = s.kv_used - s.pool_before
    rows_known = near & s.facts.layers_known & (s.rows_before >= 0) & (s.own_rows >= 0)
    pool = near & s.grew_known & (s.kv_used >= 0), grew == s.grew
    # a pool that shrank was given rows back that nobody noted: nothing to say about this step
    counted = s.facts.pool_counts_rows & (s.pool_before >= 0) & ((s.kv_used < 0) | (grew >= 0))
    rows = rows_known, s.rows_before == s.own_rows
    return both(given(_full(s.facts), rows), given(counted, pool))


def _sq01_explain(s: Any) -> Finding:
    if s.rows_before >= 0 and s.own_rows >= 0 and s.rows_before != s.own_rows:
        text = "other sequences stepped in between: %s left, %d found" % (_plural(s.own_rows, "row"), s.rows_before)
        return Finding(s.facts.first_full, s.own_rows, s.rows_before, text)
    grew = s.kv_used - s.pool_before
    return Finding(None, s.grew, grew, "the pool grew by %d, this step by %d" % (grew, s.grew))


# --------------------------------------------------------------------------------------------------------------------

_ALL = (
    Rule(
        "KV01",
        "length equals rows",
        "seq_len equals cache_len of the first full layer (seq_before its cache_before, where only that was seen)",
        ("layers", "seq_len", "cache_len"),
        "A prefix's rows were restored but the position counter started again at 0: seq_len said 8 while 32 rows were "
        "there, and the next row was written over the prefix.",
        (Case("any_step", _kv01),),
        _kv01_explain,
        concerns=_full,
        can_tell=_layers_known,
    ),
    Rule(
        "KV02",
        "layers agree",
        "all full layers have the same cache_len (or cache_before)",
        ("layers", "cache_len in every layer"),
        "A crop removed two rows from layer 0 only; attention in that layer read other positions than all the others.",
        (Case("any_step", _kv02),),
        _kv02_explain,
        concerns=lambda facts: facts.many_full or not facts.layers_known,
        can_tell=_layers_known,
    ),
    Rule(
        "KV03",
        "growth is exact",
        "prefill and decode grow by n_tokens (a decode feeds 0 or 1); verify feeds 1 + drafted and grows by "
        "1 + accepted, 0 <= accepted <= drafted; in the naive loop the sequence grows by 1",
        ("seq_before", "seq_len", "n_tokens", "n_drafted and n_accepted"),
        "Assisted generation moved its position by one a round, not by the number of drafts it accepted.",
        (Case("no_verify", _kv03), Case("is_verify", _kv03_verify)),
        _kv03_explain,
    ),
    Rule(
        "KV04",
        "steps join",
        "seq_before equals the sequence's previous seq_len less every shift and rollback noted since; on its first "
        "step, the reused prefix",
        ("request", "n_reused in it (first step)", "seq_before", "previous seq_len", "no gap"),
        "The cache ended at row 16382 and the next batch started at 16384: one position was never written.",
        (Case("later", _kv04), Case("first", _kv04_first)),
        _kv04_explain,
    ),
    Rule(
        "KV05",
        "inside capacity",
        "seq_before + n_tokens <= capacity (naive: seq_len)",
        ("kv.capacity", "seq_before", "n_tokens", "seq_len in the naive loop"),
        "At 4092 of 4096 rows the engine still drafted 5 tokens: 4098 rows while in flight, though only 4096 stayed.",
        (Case("any_step", _kv05),),
        _kv05_explain,
        concerns=lambda facts: facts.has_full or not facts.has_window,  # windows alone roll on for ever
        can_tell=lambda facts: facts.capacity >= 0,
    ),
    Rule(
        "KV06",
        "windows hold what they should",
        "a window layer holds min(seq_len, window) to min(seq_len, window + slack) rows",
        ("layers", "seq_len", "cache_len in every window layer"),
        "A quantised cache class without a cap served layers with a window of 512: 662 rows met a mask of 512 columns.",
        (Case("any_step", _kv06),),
        _kv06_explain,
        concerns=lambda facts: facts.has_window or not facts.layers_known,
        can_tell=_layers_known,
    ),
    Rule(
        "KV07",
        "drafts are trimmed",
        "at a verify step each full layer grows by 1 + accepted; a draft model's cache is as long as the sequence, or "
        "one shorter when all drafts were accepted",
        ("layers", "n_accepted", "cache_len in every layer", "previous cache_len", "no gap"),
        "After each rejection the draft model's cache was cut by two rows too many and never caught up; from then on "
        "it drafted from stale context and almost nothing was accepted.",
        (Case("is_verify", _kv07),),
        _kv07_explain,
    ),
    Rule(
        "KV08",
        "shifted once",
        "a full context is shifted once, by what the note says, keeping n_keep",
        ("shift note", "previous seq_len", "seq_before", "no gap"),
        "Three slots' worth of shifts ran for one full context, one after the other.",
        (Case("shifts", _kv08),),
        _kv08_explain,
    ),
    Rule(
        "KV09",
        "the prompt is accounted for",
        "when a prefill is over: reused + fed = prompt, reused <= prompt, at least one token fed",
        ("request", "prompt_tokens and n_reused in it", "a prefill step", "what was fed of the prompt", "no gap"),
        "A prefix keyed with 20 tokens was stored with 19 rows; the 20th was neither cached nor fed.",
        (Case("prefill_ended", _kv09),),
        _kv09_explain,
        at_previous=True,
    ),
    Rule(
        "KV10",
        "layers without rows",
        "recurrent layers have no rows; a shared layer mirrors its owner",
        ("layers", "cache_len in every recurrent or shared layer"),
        "Convolution and recurrent states were taken for key/value caches and counted, cropped and copied as rows.",
        (Case("any_step", _kv10),),
        _kv10_explain,
        concerns=lambda facts: facts.has_recurrent or facts.has_shared or not facts.layers_known,
        can_tell=_layers_known,
    ),
    Rule(
        "KV11",
        "written where the rows end",
        "the row written is the first full layer's old cache_len, whatever the rotary position is",
        ("layers", "write_pos", "previous cache_len", "no gap"),
        "After a restore the write offset restarted at 0 and new rows overwrote the reused prefix.",
        (Case("n_tokens", _kv11),),
        _kv11_explain,
        concerns=_full,
        can_tell=lambda facts: facts.layers_known and facts.may_record("write_pos"),
    ),
    Rule(
        "KV12",
        "the pool conserves",
        "used + free is constant (= total where known); a release that leaves no active sequence leaves nothing used; "
        "evictable or retained rows count as free",
        ("kv_used and kv_free",),
        "Pages allocated for rejected drafts were not given back: 128 tokens, two pages, gone after every request.",
        (Case("any_step", _kv12),),
        _kv12_explain,
        can_tell=lambda facts: facts.may_record("kv_used", "kv_free"),
    ),
    Rule(
        "TK01",
        "ids lie in the vocabulary",
        "sampled and drafted ids lie in the model's vocabulary (padding rows included), not the tokenizer's",
        ("model.vocab_size", "token_id", "n_drafted and draft_ids"),
        "A buffer that was never filled gave the id 5279552648203111001.",
        (Case("samples_one", _tk01), Case("is_verify", _tk01_verify)),
        _tk01_explain,
        can_tell=lambda facts: facts.vocab_size >= 0,
    ),
    Rule(
        "TK02",
        "nothing after the end",
        "nothing follows a finish or an end id in that sequence, neither in later steps nor among a step's own "
        "accepted tokens (end ids: unless ignore_eos)",
        ("phase", "stop.eos", "n_accepted", "draft_ids"),
        "An end token accepted in the middle of a block of drafts did not stop generation.",
        (Case("no_verify", _tk02), Case("is_verify", _tk02_verify)),
        _tk02_explain,
    ),
    Rule(
        "TK03",
        "no more than asked",
        "generated <= max_new_tokens: 1 a decode step, 1 + accepted a verify step, the end token counted",
        ("max_new_tokens", "what each step generated", "no gap"),
        "One token was asked for; the pending token and three accepted drafts came back.",
        (Case("no_prefill", _tk03),),
        _tk03_explain,
    ),
    Rule(
        "TK04",
        "rows are accounted for at the end",
        "at a step with a finish: rows = reused + prompt fed + tokens fed and kept - shifted",
        ("layers", "request", "n_reused in it", "cache_len", "what each step fed and kept", "no gap"),
        "With 4 drafts a round the last 5 tokens were computed, stayed in the cache and were lost from the answer.",
        (Case("finish", _tk04),),
        _tk04_explain,
        concerns=_full,
        can_tell=_layers_known,
    ),
    Rule(
        "TK05",
        "decode feeds one",
        "plain decode feeds one token a sequence a forward (naive: not judged)",
        ("n_tokens",),
        "The cache was switched off by a flag nobody looked at: every token fed the whole sequence again.",
        (Case("is_decode", _tk05),),
        _tk05_explain,
        concerns=lambda facts: not facts.naive,
    ),
    Rule(
        "TM01",
        "time runs forward",
        "t_ns never runs backwards",
        ("t_ns", "previous t_ns", "no gap"),
        "The last token's time was the arrival time, so it lay before the first token's.",
        (Case("later", _tm01), Case("begins_timed", _tm01)),
        _tm01_explain,
    ),
    Rule(
        "TM02",
        "times nest",
        "qkv + o + gate_up + down fit in gemm, gemm + attn + lm_head in forward, forward + sample in total, within "
        "0.1 % and the run's resolution_ms a part",
        ("two nested times",),
        "Sampling that was timed elsewhere was added to a total that did not contain it: the parts exceeded the whole.",
        (Case("any_step", _tm02),),
        _tm02_explain,
        can_tell=lambda facts: facts.timed,
    ),
    Rule(
        "SQ01",
        "sequences keep apart",
        "where other sequences stepped in between, this one's rows are as its own last step left them; without paging "
        "the pool grows by the step's own growth",
        ("layers", "cache_len", "n_tokens", "n_accepted", "previous cache_len of the sequence", "no gap"),
        "A batch job used the same slot and cleared it; the first conversation went on as if its rows were there.",
        (Case("interleaved", _sq01),),
        _sq01_explain,
    ),
)

RULES: Dict[str, Rule] = {rule.code: rule for rule in _ALL}
