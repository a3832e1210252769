"""A run's facts in words: one or two lines that say what was running where."""

from __future__ import annotations

from typing import Any

from inspector.text import visible


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def model_words(run: dict[str, Any]) -> str:
    """`letters: 4 layers, 4/2 heads of 32, vocabulary 935`, as far as it is known."""
    model = _dict(run.get("model"))
    parts = []
    if model.get("n_layers"):
        parts.append(f"{model['n_layers']} layers")
    if model.get("n_heads"):
        heads = f"{model['n_heads']}"
        if model.get("n_kv_heads") and model["n_kv_heads"] != model["n_heads"]:
            heads += f"/{model['n_kv_heads']}"
        size = f" of {model['head_dim']}" if model.get("head_dim") else ""
        parts.append(f"{heads} heads{size}")
    if model.get("vocab_size"):
        parts.append(f"vocabulary {model['vocab_size']}")
    name = str(model.get("name") or "unnamed model")
    return visible(f"{name}: {', '.join(parts)}" if parts else name)


def engine_words(run: dict[str, Any]) -> str:
    """`stepscope-numpy 0.1.0 (build 1234)`."""
    engine, producer = _dict(run.get("engine")), _dict(run.get("producer"))
    name = str(engine.get("name") or producer.get("name") or "unknown engine")
    for key, prefix in (("version", " "), ("commit", " at "), ("build_id", " build ")):
        if engine.get(key):
            name += f"{prefix}{engine[key]}"
    return visible(name)


def build_words(run: dict[str, Any]) -> str:
    """The engine, the flags it was built with, and its loop unless that is the usual one."""
    flags, loop = _dict(run.get("engine")).get("flags"), run.get("loop")
    known = [flags, None if loop == "cached" else loop]
    return visible(" | ".join([engine_words(run), *(str(said) for said in known if said)]))


def sampler_words(run: dict[str, Any]) -> str:
    """`greedy`, or the settings that are on."""
    sampler = _dict(run.get("sampler"))
    if not sampler:
        return ""
    kind = str(sampler.get("kind") or "sampler")
    if kind == "greedy":
        penalty = sampler.get("repetition_penalty")
        return "greedy" + (f", repetition penalty {penalty}" if penalty not in (None, 1, 1.0) else "")
    on = [f"{k} {v}" for k, v in sampler.items() if k != "kind" and v is not None]
    return visible(f"{kind} ({', '.join(on)})" if on else kind)


def host_words(run: dict[str, Any]) -> str:
    """`x86_64, 2 threads`."""
    host = _dict(run.get("host"))
    parts = [str(host[k]) for k in ("machine", "cpu") if host.get(k)]
    if host.get("threads"):
        parts.append(f"{host['threads']} thread{'' if host['threads'] == 1 else 's'}")
    return visible(", ".join(parts))


def megabytes(n_bytes: float) -> str:
    """`3.68 MB`, `1,976 MB`: millions of bytes."""
    return f"{n_bytes / 1e6:,.2f} MB" if n_bytes < 1e7 else f"{n_bytes / 1e6:,.0f} MB"


def describe(run: dict[str, Any]) -> list[str]:
    """The run in at most two lines, for the head of a film."""
    second = [engine_words(run), sampler_words(run), host_words(run)]
    if run.get("loop") not in (None, "cached"):
        second.append(f"{run['loop']} loop")
    if run.get("clock") == "debugger":
        second.append("times seen under a debugger")
    return [model_words(run), " | ".join(visible(str(part)) for part in second if part)]
