"""A model's chat template, run where it can do no harm: a template is a program that came with a download.

It runs in the sandbox that transformers uses, in a process of its own with limits on time, memory and length: the
sandbox keeps a template from Python's insides, but not from counting to 10^20 or asking for all memory. This file is
also that process: it reads one JSON object from standard input and answers with one; it needs jinja2 alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

SECONDS = 2
"""Of processor time; the longest known templates take milliseconds."""
_SECONDS_IN_ALL = 30  # a machine may be busy
_BYTES = 512 << 20
_CHARACTERS = 16 << 20  # no context is longer


class TemplateError(Exception):
    """A template that raised an error, refused the conversation, or went beyond a limit; the message says which."""


def rendered(template: str, variables: Mapping[str, Any]) -> str:
    """What a Jinja template makes of variables, which are JSON values. Raises TemplateError."""
    asked = json.dumps({"template": template, "variables": dict(variables)})
    try:
        # -P: no module in the current folder is taken for one of Python's
        done = subprocess.run(
            [sys.executable, "-P", __file__], input=asked, capture_output=True, text=True, timeout=_SECONDS_IN_ALL
        )
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        raise TemplateError(f"it needs more than {SECONDS} s or {_BYTES >> 20} MiB") from None
    if "failed" in answer:
        raise TemplateError(answer["failed"])
    return str(answer["text"])


def _answer() -> dict[str, str]:
    """This process's part of `rendered`."""
    asked = json.load(sys.stdin)
    try:
        pieces, length = [], 0
        for piece in _environment().from_string(asked["template"]).generate(asked["variables"]):
            pieces.append(piece)
            length += len(piece)
            if length > _CHARACTERS:
                return {"failed": f"it writes more than {_CHARACTERS:,} characters"}
        return {"text": "".join(pieces)}
    except MemoryError:
        raise
    except Exception as error:  # somebody's program may raise anything
        return {"failed": " ".join(str(error).split()) or type(error).__name__}


def _environment() -> Any:
    """Set up as transformers' chat templates expect it."""
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class GenerationBlock(Extension):
        """`{% generation %}` marks the assistant's part for training; a prompt just contains it."""

        tags = {"generation"}

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    # jinja2's own filter escapes HTML characters, which would change what the model reads
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    print(json.dumps(_answer()))
