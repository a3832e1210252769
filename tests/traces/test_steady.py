"""The shortcut for usual steps decides nothing that the rules in full would decide otherwise."""

import random
import time

from traces import fields
from traces.check import Checker

NAMES = [*fields.REQUIRED, "cache_before", "t_ns"]
N_LAYERS = 3


def run_facts(names, rows, **more):
    shapes = {"cache_len": N_LAYERS, "cache_before": N_LAYERS} if rows == "each" else {}
    run = {
        "layers": [{"kind": "full"}] * N_LAYERS,
        "model": {"vocab_size": 50},
        "kv": {"capacity": 60},
        "stop": {"eos": [9]},
        "fields": fields.declaration(names, shapes),
    }
    run.update(more)
    return run


def walk(seed, names, rows, faults):
    """A run of requests: notes and raw records, some of them wrong or incomplete."""
    luck = random.Random(seed)
    clock = 0

    def count(n):
        return (n,) * N_LAYERS if rows == "each" else n

    for seq_id in range(3):
        asked = {"kind": "request", "seq_id": seq_id, "prompt_tokens": 5, "n_reused": 0, "t_ns": clock}
        if luck.random() < 0.5:
            asked["max_new_tokens"] = 40
        if luck.random() < 0.8:
            yield "note", asked
        length = 0
        for step in range(40):
            fed = 1 if step else 5
            record = dict.fromkeys(names, -1)
            record.update(
                phase=2 if step else 1,
                seq_id=seq_id,
                token_id=luck.randrange(50),
                n_tokens=fed,
                seq_before=length,
                seq_len=length + fed,
                cache_len=count(length + fed),
                cache_before=count(length),
                finish=0,
                t_ns=clock,
            )
            for name in set(names) & {"kv_used", "kv_free"}:
                record[name] = {"kv_used": length + fed, "kv_free": 100 - length - fed}[name]
            if "write_pos" in names:
                record["write_pos"] = length
            for name in names:
                if name.endswith("_ms"):
                    record[name] = {"total_ms": 3.0, "forward_ms": 2.0, "sample_ms": 0.5}[name]
            if "forward_id" in names:
                record["forward_id"] = clock
            length += fed
            clock += luck.randrange(100)
            if luck.random() < faults:
                break_one(luck, record, rows)
            if luck.random() < faults / 2:
                kind = luck.choice(["gap", "rollback", "shift", "finish", "release"])
                yield "note", {"kind": kind, "seq_id": seq_id, "n": 1, "n_discard": 1, "n_keep": 0, "kv_used": 3}
            yield "step", {name: record[name] for name in names}


def break_one(luck, record, rows):
    name = luck.choice(sorted(record.keys() - {"phase", "seq_id"}))
    if name in ("cache_len", "cache_before") and rows == "each":
        values = list(record[name])
        values[luck.randrange(N_LAYERS)] += luck.choice([-100, -1, 1])
        record[name] = tuple(max(v, -1) for v in values)
    elif name == "t_ns":
        record[name] = luck.choice([2**64 - 1, 0])
    elif name == "token_id":
        record[name] = luck.choice([-1, 50, 9, fields.ABSENT_I64])
    elif name.endswith("_ms"):
        record[name] = luck.choice([float("nan"), 100.0, 0.0])
    elif name == "finish":
        record[name] = 1
    else:
        record[name] = max(record[name] + luck.choice([-100, -1, 1]), -1)


def verdicts(run, events):
    checker = Checker(limit=None)
    checker.start_run(run)
    broken = []
    for kind, event in events:
        found = checker.note(event) if kind == "note" else checker.step(event)
        broken += [(f.code, f.step, f.message) for f in found]
    state = {
        s: [getattr(q, name) for name in type(q).__slots__] for s, q in checker.sequences.items()
    }  # what later steps are compared with
    return checker.report.as_json(), broken, state, vars(checker.pool)


def test_usual_steps_are_judged_as_the_rules_judge_them():
    optional = [
        [],
        ["write_pos"],
        ["kv_used", "kv_free"],
        ["total_ms", "forward_ms", "sample_ms"],
        ["write_pos", "forward_id", "kv_used", "kv_free", "total_ms", "forward_ms", "sample_ms"],
    ]
    more = [{}, {"layers": None}, {"kv": {}, "stop": {}, "model": {}}, {"kv": {"capacity": 999, "total": 100}}]
    for seed in range(200):
        names = NAMES + optional[seed % len(optional)]
        rows = "each" if seed % 3 else "one"
        run = run_facts(names, rows, **more[seed % len(more)])
        events = list(walk(seed, names, rows, faults=[0.0, 0.02, 0.2][seed % 3]))
        in_full = {name: value for name, value in run.items() if name != "fields"}  # no fields, no shortcut
        assert verdicts(run, events) == verdicts(in_full, events), seed


def test_usual_steps_cost_little():
    run = run_facts(NAMES, "each", kv={})
    events = [e for kind, e in walk(1, NAMES, "each", 0.0) if kind == "step"][1:40]
    times = {}
    for way in ("short", "full"):
        best = 1e9
        for _ in range(20):
            checker = Checker()
            checker.start_run(run if way == "short" else {k: v for k, v in run.items() if k != "fields"})
            began = time.perf_counter()
            for record in events:
                checker.step(record)
            best = min(best, time.perf_counter() - began)
        times[way] = best
    assert times["short"] < times["full"] / 3, times
