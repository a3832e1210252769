"""`stepscope floor`: the least time that a decode step of a model can take."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector.cli import UsageError
from inspector.generating import about_model

if TYPE_CHECKING:
    from engine.config import ModelConfig
    from engine.floor import Floor

HELP = "print the least time that a token of a model can take"
EPILOG = """\
A token reads every weight once (of experts, only the chosen) and every row of the KV cache. These bytes over the
memory's bandwidth are the floor: no engine decodes faster. docs/floor.md says more.

examples:
  stepscope floor ~/models/Qwen2.5-0.5B-Instruct --context 4096
  stepscope floor config.json --dtype bf16 --bandwidth 150GB/s
  stepscope floor model.gguf --dtype stored
  stepscope floor config.json --weights 4.4GB --kv-dtype f16 --bandwidth 150GB/s
"""
_UNITS = {"": 1e9, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "MIB": 2**20, "GIB": 2**30}
_FIRST_CONTEXT = 1024
_MOST_ROWS, _MOST_BYTES = 10**12, 1e18


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        default="demo",
        help="as for run; a config.json alone is enough (without: demo)",
    )
    parser.add_argument("--context", metavar="N", type=int, default=_FIRST_CONTEXT, help="rows in the KV cache (1024)")
    parser.add_argument(
        "--bandwidth", metavar="RATE", default="measure", help="150GB/s; by default, or as `measure`, this machine's"
    )
    parser.add_argument(
        "--dtype",
        choices=("f32", "f16", "bf16", "stored"),
        help="how the weights are held: f32 as this engine does (default), or as stored in the model's files",
    )
    parser.add_argument(
        "--kv-dtype", choices=("f32", "f16", "bf16"), help="the same of keys and values (default: --dtype)"
    )
    parser.add_argument(
        "--weights", metavar="SIZE", help="bytes of weights that a token reads, 4.4GB, instead of --dtype"
    )
    parser.add_argument("--threads", metavar="N", type=int, help="threads to measure with")
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print it; 0."""
    from engine.errors import EngineError
    from traces.frames import json_text

    if not 0 <= args.context <= _MOST_ROWS:
        raise UsageError(f"--context is {args.context}; it is 0 or more rows, at most 10^12")
    if args.threads is not None and args.bandwidth != "measure":
        raise UsageError("--threads says how to measure; a given --bandwidth is not measured")
    if args.weights is not None and args.dtype is not None:
        raise UsageError("--weights stands instead of --dtype; --kv-dtype says how keys and values are held")
    try:
        report = figures(args)
    except EngineError as error:
        raise UsageError(about_model(args, error)) from None
    for line in [json_text(report)] if args.json else lines(report):
        print(line)
    return 0


def figures(args: argparse.Namespace) -> dict[str, Any]:
    """What `--json` prints (see docs/reference.md)."""
    from engine import floor as floors
    from engine.model_names import find_model
    from engine.threads import settle_threads, threads_in_use

    given = None if args.bandwidth == "measure" else _size("--bandwidth", args.bandwidth.removesuffix("/s"))
    path = find_model(args.model)
    settle_threads(args.threads, path)
    config, floor = _floor(args, path)
    bandwidth = given or floors.measure_bandwidth(floors.stand_in(floor.bytes_per_token))
    contexts = _contexts(args.context, config.context_length)
    return {
        "model": path.resolve().parent.name if path.name == "config.json" else path.resolve().name,
        "shape": {
            "n_layers": config.n_layers,
            "n_heads": config.n_heads,
            "n_kv_heads": config.n_kv_heads,
            "head_dim": config.head_dim,
            "vocab_size": config.vocab_size,
        },
        "context": args.context,
        "weights": {
            "dtype": _weights_dtype(args),
            "bytes_per_token": floor.bytes_per_token,
            "parts": floor.weight_bytes,
        },
        "kv": {
            "dtype": _kv_dtype(args),
            "bytes_per_row": floor.kv_bytes_per_row,
            "bytes": floor.kv_bytes(args.context),
            "bytes_without_gqa": floor.kv_bytes(args.context) * floor.queries_per_key,
        },
        "bandwidth": {
            "gb_s": bandwidth / 1e9,
            "source": "given" if given else "measured",
            "threads": None if given else threads_in_use(),
        },
        **_at(floor, args.context, bandwidth),
        "by_context": [{"context": n, **_at(floor, n, bandwidth)} for n in contexts],
    }


def _floor(args: argparse.Namespace, path: Path) -> tuple[ModelConfig, Floor]:
    from dataclasses import replace

    from engine import floor as floors

    config, checkpoint = floors.read_shape(path)
    kv_bytes = floors.ELEMENT_BYTES[_kv_dtype(args)]
    if args.weights is not None:
        floor = floors.floor_of(config, kv_element_bytes=kv_bytes)
        return config, replace(floor, weight_bytes={"given": round(_size("--weights", args.weights))})
    dtype = _weights_dtype(args)
    if dtype != "stored":
        return config, floors.floor_of(config, floors.in_elements(floors.ELEMENT_BYTES[dtype]), kv_bytes)
    if checkpoint is None:
        raise UsageError(f"{args.model}: no weights are here to be stored; name a --dtype, or --weights")
    return config, floors.floor_of(config, floors.as_stored(config, checkpoint), kv_bytes)


def _weights_dtype(args: argparse.Namespace) -> str:
    return "given" if args.weights is not None else args.dtype or "f32"


def _kv_dtype(args: argparse.Namespace) -> str:
    # engines that keep quantised weights keep keys and values as float16
    return args.kv_dtype or ("f16" if args.dtype == "stored" else args.dtype or "f32")


def _at(floor: Floor, context: int, bandwidth: float) -> dict[str, float]:
    kv, least_ms = floor.kv_bytes(context), floor.least_ms(context, bandwidth)
    return {
        "least_ms": least_ms,
        "most_tok_s": 1000 / least_ms,
        "attention_share": kv / (kv + floor.bytes_per_token),
    }


def _contexts(asked: int, longest: int) -> list[int]:
    """None, then four times as many each, to the model's own length; and what was asked for."""
    steps = [0]
    while len(steps) < 12 and (n := steps[-1] * 4 or _FIRST_CONTEXT) < longest:
        steps.append(n)
    return sorted({*steps, asked, longest})


def _size(flag: str, words: str) -> float:
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([A-Za-z]*)", words.strip())
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is not None and re.fullmatch("[A-Z]i?b", found[2]):
        raise UsageError(f"{flag} is {words!r}, in bits; give bytes, as 150GB")
    size = float(found[1]) * unit if found and unit else 0.0
    if not 1 <= size <= _MOST_BYTES:
        raise UsageError(
            f"{flag} is {words!r}; it is a size above zero, as 150GB (B, kB, MB, GB, TB, MiB, GiB; at most 10^18 bytes)"
        )
    return size


def lines(report: dict[str, Any]) -> list[str]:
    """The same for a person."""
    from inspector.facts import megabytes, model_words

    weights, kv, bandwidth = report["weights"], report["kv"], report["bandwidth"]
    total = weights["bytes_per_token"]
    out = [model_words({"model": {"name": report["model"], **report["shape"]}})]
    out.append(f"weights that a token reads ({weights['dtype']}): {megabytes(total)}")
    if len(weights["parts"]) > 1:
        out += [f"  {part:<10}{megabytes(size):>12}{size / total:>8.1%}" for part, size in weights["parts"].items()]
    out.append(
        f"KV cache of {report['context']:,} rows ({kv['dtype']}): {kv['bytes']:,} bytes, {kv['bytes_per_row']:,} a row"
        + (
            f"; {kv['bytes_without_gqa']:,} if query heads did not share"
            if kv["bytes_without_gqa"] > kv["bytes"]
            else ""
        )
    )
    how = (
        f"measured on {bandwidth['threads']} thread{'s' * (bandwidth['threads'] != 1)}"
        if bandwidth["threads"]
        else "given"
    )
    out.append(f"memory: {bandwidth['gb_s']:.1f} GB/s ({how})")
    out.append(
        f"least: {_ms(report['least_ms'])} ms a token at {report['context']:,} rows, "
        f"at most {report['most_tok_s']:.1f} tok/s"
    )
    out.append(f"{'context':>9} {'least ms':>10} {'tok/s':>9} {'attention':>10}   (its share of the bytes)")
    for row in report["by_context"]:
        out.append(
            f"{row['context']:>9} {_ms(row['least_ms']):>10} {row['most_tok_s']:>9.1f} {row['attention_share']:>10.1%}"
        )
    return out


def _ms(ms: float) -> str:
    from inspector.film import milliseconds

    return milliseconds(ms)
