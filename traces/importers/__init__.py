"""Other forms in, one file a format: each turns text into a step trace and never invents what the text does not say.

A module for an engine's log has NAME, `knows(line)` (whether a line is surely that engine's), MARKS (words that only
its lines of numbers have) and READER (makes a `log.Reader`); its entry in ENGINES is what makes it known.
"""

from __future__ import annotations

ENGINES = ("kestrel", "llama_cpp", "vllm", "ollama")
"""Modules, in the order in which they are asked whether they know a line"""
