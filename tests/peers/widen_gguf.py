"""A quantised GGUF file with every tensor as float32: `python widen_gguf.py IN.gguf OUT.gguf`, with the `gguf` package.

llama.cpp rounds its activations too where weights are quantised; on these weights it computes in float32.
"""

from __future__ import annotations

import sys

import gguf
from gguf.quants import dequantize

SET_BY_THE_WRITER = {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture"}


def main(source: str, target: str) -> None:
    """Write the file."""
    read = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, read.fields["general.architecture"].contents())
    for name, field in read.fields.items():
        if name not in SET_BY_THE_WRITER:
            element = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=element)
    for tensor in read.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
