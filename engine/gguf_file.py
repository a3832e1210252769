"""A GGUF file's header: its metadata and where its tensors lie.

GGUF is llama.cpp's single-file format (docs/gguf.md of ggml): counts, key-value pairs, tensor descriptions,
then the data. The header is walked here, length by length against the file's size, before anything is
allocated for what it claims; the `gguf` package's own reader trusts those lengths and takes seconds for a
vocabulary of 150,000. What the entries mean is `gguf_model.py`'s matter.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import refuse_endless
from engine.errors import EngineError
from engine.weights import BLOCKS, StoredTensor

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_LEAST_BYTES = {kind: struct.calcsize(code) for kind, code in _SCALARS.items()} | {_STRING: 8, _ARRAY: 12}
_DEEPEST = 4
# ggml's numbers of the tensor types that are read
_TYPES = {0: "F32", 1: "F16", 30: "BF16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0"} | {
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
}


@dataclass(frozen=True)
class GgufFile:
    """A header: metadata by key, and tensors by GGUF's names, shapes with the rows first as numpy has them."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]


def read_gguf(path: Path) -> GgufFile:
    """The header of a GGUF file of version 2 or 3, little-endian.

    Raises EngineError where the file is none, where a length does not fit it, or where a tensor is quantised
    in a way that is not read.
    """
    refuse_endless(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Header(path, data).read()
    except OSError as error:
        raise EngineError(f"{path}: cannot read: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, EngineError):
            raise
        raise EngineError(f"{path}: the file is empty; download it again") from None


class _Header:
    """A position in the header that never leaves the file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at = path, data, 0

    def read(self) -> GgufFile:
        if self._data[:4] != _MAGIC:
            raise EngineError(f"{self._path}: not a GGUF file; name safetensors models by their folder")
        self._at = 4
        version = self._number("I")
        if version not in _VERSIONS:
            known = " and ".join(map(str, _VERSIONS))
            raise EngineError(f"{self._path}: GGUF version {version} is not supported; supported: {known}")
        n_tensors, n_entries = self._number("Q"), self._number("Q")
        # a description holds at least a name's length, a dimension count, a type and an offset
        self._check(n_tensors, 24, "tensors")
        self._check(n_entries, 13, "metadata entries")
        metadata = {}
        for _ in range(n_entries):
            key = self._string()
            metadata[key] = self._value(self._number("I"))
        described = [self._tensor() for _ in range(n_tensors)]
        data_start = self._data_start(metadata.get("general.alignment", _ALIGNMENT))
        return GgufFile(self._path, metadata, {t[0]: self._placed(data_start, *t) for t in described})

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """(name, shape, ggml's type number, offset from the data's start)."""
        name, n_dimensions = self._string(), self._number("I")
        self._check(n_dimensions, 8, "dimensions")
        shape = tuple(reversed([self._number("Q") for _ in range(n_dimensions)]))
        return name, shape, self._number("I"), self._number("Q")

    def _placed(self, data_start: int, name: str, shape: tuple[int, ...], kind: int, offset: int) -> StoredTensor:
        if kind not in _TYPES:
            raise EngineError(
                f"{self._path}: {name} is quantised as {_type_name(kind)}; supported: {', '.join(_TYPES.values())}; "
                "use the model quantised as one of these"
            )
        tensor = StoredTensor(self._path, name, _TYPES[kind], shape, data_start + offset)
        per_block = BLOCKS[tensor.dtype].values
        if math.prod(shape[-1:]) % per_block:
            raise EngineError(f"{self._path}: {name} {list(shape)} is not in whole blocks of {per_block} values")
        end = tensor.offset + tensor.n_bytes
        if end > len(self._data):
            raise EngineError(
                f"{self._path}: {name} ends at byte {end}, the file has {len(self._data)}; download it again"
            )
        return tensor

    def _data_start(self, alignment: Any) -> int:
        if not isinstance(alignment, int) or not 0 < alignment <= len(self._data):
            raise EngineError(f"{self._path}: general.alignment is {alignment!r}; download the file again")
        return -(-self._at // alignment) * alignment

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind == _STRING:
            return self._string()
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind != _ARRAY or depth == _DEEPEST:
            raise EngineError(f"{self._path}: byte {self._at}: unknown metadata type {kind}; download the file again")
        kind, n = self._number("I"), self._number("Q")
        self._check(n, _LEAST_BYTES.get(kind, 1), "array values")
        if kind in _SCALARS:
            values = struct.unpack_from(f"<{n}{_SCALARS[kind]}", self._data, self._at)
            self._at += n * _LEAST_BYTES[kind]
            return list(values)
        return [self._value(kind, depth + 1) for _ in range(n)]

    def _string(self) -> str:
        length = self._number("Q")
        self._check(length, 1, "characters")
        raw = self._data[self._at : self._at + length]
        self._at += length
        # pieces of a vocabulary may be half characters in files of older converters
        return raw.decode("utf-8", "replace")

    def _number(self, code: str) -> Any:
        size = struct.calcsize(code)
        self._check(1, size, "values")
        (value,) = struct.unpack_from(f"<{code}", self._data, self._at)
        self._at += size
        return value

    def _check(self, n: int, least_bytes: int, what: str) -> None:
        left = len(self._data) - self._at
        if n * least_bytes > left:
            raise EngineError(
                f"{self._path}: byte {self._at}: {n} {what} should follow, the file has {left} more bytes; "
                "download it again"
            )


def _type_name(kind: int) -> str:
    try:
        from gguf.constants import GGMLQuantizationType

        return GGMLQuantizationType(kind).name
    except (ImportError, ValueError):
        return f"ggml type {kind}"
