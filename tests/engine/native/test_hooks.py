"""What README.md promises a debugger: the hooks are real functions, with their arguments, at every level."""

from __future__ import annotations

import re

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tests.engine.native.conftest import NATIVE, built

README = (NATIVE / "README.md").read_text()
HOOKS = {
    name: [argument.split()[-1].lstrip("*") for argument in arguments.split(",")]
    for name, arguments in re.findall(r"^\| `(\w+)\(([^)]*)\)` \|", README, re.MULTILINE)
}
STATE = set(re.findall(r"st->(\w+)", README))


def test_the_readme_was_read() -> None:
    assert set(HOOKS) == {"generate", "begin_request", "reset_context", "forward", "sample", "finish_request"}
    assert {"seq_len", "cache_len", "cfg", "gemm_ms", "write_pos"} <= STATE


@pytest.mark.parametrize("build", ["O0", "O2", "O3"])
def test_hooks_are_functions_with_these_arguments(build: str) -> None:
    with built(build).open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        functions = {s.name for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"}
        arguments = {}
        members: set[str] = set()
        for unit in elf.get_dwarf_info().iter_CUs():
            for die in unit.iter_DIEs():
                name = die.attributes["DW_AT_name"].value.decode() if "DW_AT_name" in die.attributes else ""
                if die.tag == "DW_TAG_subprogram" and name in HOOKS and "DW_AT_low_pc" in die.attributes:
                    parameters = [c for c in die.iter_children() if c.tag == "DW_TAG_formal_parameter"]
                    arguments[name] = [p.attributes["DW_AT_name"].value.decode() for p in parameters]
                    assert all("DW_AT_location" in p.attributes for p in parameters)
                if die.tag == "DW_TAG_structure_type" and name == "state":
                    members |= {c.attributes["DW_AT_name"].value.decode() for c in die.iter_children()}
    assert arguments == HOOKS
    assert functions >= set(HOOKS)
    # a clone, such as forward.constprop.0, would take arguments away from a breakpoint at forward
    assert not [name for name in functions if name.split(".")[0] in HOOKS and "." in name]
    assert members >= STATE
