"""`stepscope probe`: hook specs listed, drafted from a binary, verified against one, frozen for a stripped twin, and
spelled out for a gdb without Python."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from inspector.cli import FINE, NO, UsageError, tell
from inspector.text import visible

if TYPE_CHECKING:
    from gdb_scripts.probe import Probe
    from inspector.binary import Binary
    from inspector.binary.probing import Place

HELP = "list, draft and verify hook specs, freeze them for a stripped twin, make them commands for a plain gdb"
EPILOG = """\
exit codes: 0 fine, 1 an expression does not resolve (verify), 2 usage or unreadable input

examples:
  stepscope probe list
  stepscope probe draft build/engine -o mine.ini
  stepscope probe verify build/engine mine.ini
  stepscope probe layout build/engine mine.ini -o mine.layout.json
  stepscope probe plain mine.ini -o hooks.gdb
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the verb."""
    what = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)
    listed = what.add_parser("list", help="the specs that come with stepscope")
    listed.add_argument("--json", action="store_true", help="one JSON object")
    listed.set_defaults(act=_list)
    draft = what.add_parser("draft", help="write a first spec from a binary's debug information")
    draft.add_argument("binary", metavar="BINARY", help="the engine or its library, compiled with -g")
    draft.add_argument("-o", "--output", metavar="P.ini", help="write it there; without, it is printed")
    draft.set_defaults(act=_draft)
    verify = what.add_parser("verify", help="resolve every expression of a spec without running the program")
    _add_both(verify)
    verify.add_argument("--json", action="store_true", help="one JSON object")
    verify.set_defaults(act=_verify)
    layout = what.add_parser("layout", help="freeze offsets and addresses for a stripped twin with the same build id")
    _add_both(layout)
    layout.add_argument("-o", "--output", metavar="P.layout.json", help="write it there; without, it is printed")
    layout.set_defaults(act=_layout)
    plain = what.add_parser("plain", help="a spec as a command file for a gdb without Python")
    plain.add_argument("probe", metavar="PROBE", help="a shipped spec's name, or the path of an .ini file")
    plain.add_argument("-o", "--output", metavar="HOOKS.gdb", help="write it there; without, it is printed")
    plain.set_defaults(act=_plain)


def _add_both(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("binary", metavar="BINARY", help="the engine or its library, compiled with -g")
    parser.add_argument("probe", metavar="PROBE", help="a shipped spec's name, or the path of an .ini file")


def run(args: argparse.Namespace) -> int:
    """Do what was asked."""
    from gdb_scripts.probe import ProbeError
    from inspector.binary import BinaryError

    try:
        return int(args.act(args))
    except (BinaryError, ProbeError) as error:
        raise UsageError(str(error)) from None


def _list(args: argparse.Namespace) -> int:
    from gdb_scripts import probe as probes

    found = [probes.load(name) for name in probes.shipped()]
    if args.json:
        print(json.dumps({"probes": [_described(probe) for probe in found]}))
        return FINE
    for probe in found:
        print(f"{probe.name:<12} {probe.engine}: {', '.join(h.function for h in probe.hooks)}")
    return FINE


def _described(probe: Probe) -> dict[str, Any]:
    hooks = [{"event": hook.event, "function": hook.function} for hook in probe.hooks]
    return {"name": probe.name, "engine": probe.engine, "path": probe.path, "hooks": hooks}


def _draft(args: argparse.Namespace) -> int:
    from inspector.binary import damage_is_said, open_binary
    from inspector.binary.draft import candidates, spec

    with open_binary(args.binary) as binary, damage_is_said(args.binary):
        found = candidates(binary)
        text = spec(binary, found, os.path.basename(args.binary))
    _expect_sound(text, args.binary)
    _write(text, args.output)
    return FINE


def _expect_sound(text: str, path: str) -> None:
    """A draft that the reader refuses would be our fault, but names in a binary may hold anything."""
    from gdb_scripts import probe as probes
    from inspector.binary import BinaryError

    try:
        probes.read(text, "draft")
    except probes.ProbeError as error:
        raise BinaryError(f"{path}: no spec can be drafted from its names: {error}") from None


def _write(text: str, path: str | None) -> None:
    """To the file, which must not be there: a spec that somebody edited is not to be lost."""
    if path is None:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path}: exists; choose another name or remove it") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot write: {error.strerror}") from None


def _verify(args: argparse.Namespace) -> int:
    from gdb_scripts import probe as probes
    from inspector.binary import open_binary
    from inspector.binary.probing import ambiguous, verified

    probe = probes.load(args.probe)
    with open_binary(args.binary) as binary:
        places = verified(binary, probe)
        if args.json:
            print(json.dumps(_as_json(binary, probe, places)))
        else:
            _show(binary, probe, places)
            for line in ambiguous(probe, places):
                tell(line)
    return FINE if all(place.is_sound for place in places) else NO


def _as_json(binary: Binary, probe: Probe, places: list[Place]) -> dict[str, Any]:
    from inspector.binary.probing import ambiguous

    return {
        "binary": binary.path,
        "build_id": binary.build_id,
        "machine": binary.elf.machine,
        "producer": binary.producer(),
        "probe": probe.path,
        "verdict": "pass" if all(place.is_sound for place in places) else "fail",
        "ambiguous": ambiguous(probe, places),
        "hooks": [
            {
                "section": place.section,
                "function": place.function.qualified if place.function else place.wanted,
                "address": place.function.address if place.function else None,
                "file": place.function.file if place.function else None,
                "line": place.function.line if place.function else None,
                "why": place.why,
                "fields": [
                    {"field": f.field, "expression": f.expression, "where": f.where, "why": f.why}
                    for f in place.findings
                ],
            }
            for place in places
        ],
    }


def _show(binary: Binary, probe: Probe, places: list[Place]) -> None:
    good = all(place.is_sound for place in places)
    print(visible(f"{binary.path}: {'PASS' if good else 'FAIL'}  probe {probe.name}, build id {binary.build_id[:12]}…"))
    for place in places:
        if place.function is None:
            print(visible(f"[{place.section}] {place.wanted}: {place.why}"))
            continue
        where = f"{place.function.file}:{place.function.line}"
        print(visible(f"[{place.section}] {place.function.qualified} at {place.function.address:#x}, {where}"))
        widths = [max(len(getattr(f, name)) for f in place.findings) for name in ("field", "expression")]
        for f in place.findings:
            said = f.where if f.where is not None else f"does not resolve: {f.why}"
            print(visible(f"  {f.field:<{widths[0]}}  {f.expression:<{widths[1]}}  {said}"))


def _layout(args: argparse.Namespace) -> int:
    from gdb_scripts import probe as probes
    from inspector.binary import open_binary
    from inspector.binary.probing import freeze, refused

    probe = probes.load(args.probe)
    with open_binary(args.binary) as binary:
        data = freeze(binary, probe)
    _write(json.dumps(data, indent=1) + "\n", args.output)
    for section, name, why in refused(data):
        tell(f"[{section}] {name.partition('.')[2]} stays absent: {why}")
    return FINE


def _plain(args: argparse.Namespace) -> int:
    from gdb_scripts import probe as probes
    from gdb_scripts.backends.plain import script

    _write(script(probes.load(args.probe)), args.output)
    return FINE
