"""The one module that imports gdb: types, variables, memory, breakpoints and words, behind a small interface.

Everything here reads; nothing calls a function of the program. What gdb cannot give is layout.Absent, with the reason.
"""

from __future__ import annotations

import contextlib
import re
import signal
import struct
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple, TypeVar

import gdb

from gdb_scripts.layout import NO_SYMBOL, OPTIMIZED_OUT, UNREADABLE, Absent, Load, Memory, Scope, Type, Variable
from gdb_scripts.probe import Hook, plain_name

_REFERENCES = (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)
_QUIET_SETTINGS = (
    "pagination off",
    "confirm off",
    "breakpoint pending on",
    "debuginfod enabled off",
    "remote pass-signals-packet off",
)


def quiet() -> None:
    """Turn off what would wait for a key, since a recording has to run unattended, and two packets a stop that tell the
    target again and again which signals gdb does not want to see."""
    for setting in _QUIET_SETTINGS:
        with contextlib.suppress(gdb.error):  # a gdb without that setting does not ask
            gdb.execute("set " + setting, to_string=True)


def version() -> Tuple[int, int]:
    """gdb's own version, (0, 0) where it does not tell."""
    parts = gdb.VERSION.split(".")
    digits = ["".join(c for c in part if c.isdigit()) for part in parts[:2]]
    return (int(digits[0] or 0), int(digits[1] or 0)) if len(digits) == 2 else (0, 0)


_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys, or no encoding holds: names and source lines come from files that anybody may have written"""


def say(text: str) -> None:
    """A line for the user, at once; nothing in it is an order to the terminal."""
    gdb.write(_OBEYED.sub(lambda found: "\\x%02x" % ord(found[0]), text) + "\n")
    gdb.flush()


_CTRL_C = {signal.SIGINT}
_Read = TypeVar("_Read")


def _hold_ctrl_c() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _CTRL_C)


_told: Set[str] = set()


def _tell_once(problem: str) -> None:
    if problem not in _told:
        _told.add(problem)
        with contextlib.suppress(gdb.error, OSError):
            say("stepscope: %s" % problem)


def guarded(action: Callable[..., Any], on_error: Callable[[str], None] = _tell_once) -> Callable[..., Any]:
    """The action as gdb may call it: nothing that it raises reaches gdb. What goes wrong is one line, and the answer
    None."""

    def call(*arguments: Any) -> Any:
        try:
            return action(*arguments)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - in gdb's hands it would disturb the program
            kind = "" if isinstance(error, (Absent, gdb.error)) else type(error).__name__ + ": "
            on_error("%s%s" % (kind, error))
            return None

    return call


def defer(action: Callable[[], None]) -> None:
    """Run it when gdb is idle: a breakpoint deleted inside its own stop() can crash gdb."""
    gdb.post_event(guarded(action))


def execute(command: str) -> str:
    """The output of a gdb command, or the error as Absent.

    An error inside a hit makes gdb believe that the command which let the program run is over: ask first what can fail.
    """
    try:
        return str(gdb.execute(command, to_string=True))
    except gdb.error as error:
        raise Absent(NO_SYMBOL, str(error)) from None


def run(command: str) -> None:
    """A gdb command whose output the user sees. Raises gdb.error."""
    gdb.execute(command)


set_variable = gdb.set_convenience_variable
"""set_variable(name, value): `$name` for the user"""


def pid() -> int:
    """The process being debugged, 0 where none is."""
    return int(gdb.selected_inferior().pid)


def was_killed() -> bool:
    """Whether a signal ended the program that ran last: neither its own exit, nor `detach`, nor gdb's `kill`."""
    return gdb.convenience_variable("_exitsignal") is not None


def thread() -> int:
    """The thread that stopped, 0 where there is none."""
    selected = gdb.selected_thread()
    return int(selected.global_num) if selected is not None else 0


_THREAD_POINTERS = {"x86_64": "$fs_base", "aarch64": "$tpidr"}


def thread_pointer() -> str:
    """The register that is different in each thread, empty where this target does not show one."""
    register = _THREAD_POINTERS.get(machine(), "")
    try:
        return register if register and int(gdb.parse_and_eval(register)) else ""
    except (gdb.error, TypeError):
        return ""


def register(name: str) -> Optional[int]:
    """What a register holds, None where it cannot be read."""
    try:
        return _register(name)
    except (gdb.error, TypeError):
        return None


def machine() -> str:
    """The program's processor, not the debugger's: x86_64, aarch64 ..."""
    name = str(gdb.selected_inferior().architecture().name())
    return {"i386:x86-64": "x86_64"}.get(name, name)


def program() -> str:
    """The program's file, empty where there is none."""
    return str(gdb.current_progspace().filename or "")


def is_stripped() -> bool:
    """Whether the program has no symbols of its own, not even main."""
    try:
        return "No symbol" in execute("info address main")
    except Absent:
        return True


def build_ids() -> Dict[str, str]:
    """File -> build id, in hexadecimal, of the program and its libraries that have one."""
    found = {}
    for objfile in gdb.objfiles():
        if objfile.filename and getattr(objfile, "build_id", None):
            found[str(objfile.filename)] = str(objfile.build_id)
    return found


def build_id() -> str:
    """The program's build id, empty where it has none."""
    return build_ids().get(program(), "")


def file_of(pc: int) -> str:
    """The program or library that an address lies in."""
    return str(gdb.current_progspace().solib_name(pc) or program())


def section_start(build_id_: str, section: str) -> Optional[int]:
    """Where a section of the program or library with that build id lies now; None while it is not loaded."""
    files = [file for file, found in build_ids().items() if found == build_id_]
    if not files:
        return None
    for line in execute("info files").splitlines():
        start, _, rest = line.strip().partition(" - ")
        name = rest.partition(" is ")[2]
        if name == section + " in " + files[0] or (name == section and files[0] == program()):
            return int(start, 16)
    return None


# -- types -----------------------------------------------------------------------------------------------------------

_types: Dict[str, Type] = {}


def forget_types() -> None:
    """New symbol files may bring other types of the same name."""
    _types.clear()


def convert(kind: Any) -> Type:
    """A gdb.Type as layout needs it."""
    given = kind.unqualified()
    kind = kind.strip_typedefs().unqualified()
    # a struct without a tag is known by its typedef alone
    name = str(kind) if kind.name or not given.name else str(given.name)
    key = "%s/%d/%d" % (name, kind.code, kind.sizeof)
    if key not in _types or not kind.name:
        _types[key] = _converted(kind, name)
    return _types[key]


def _converted(kind: Any, name: str) -> Type:
    code, size = kind.code, int(kind.sizeof)
    if code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_ENUM):
        return Type("int" if _is_signed(kind, name) else "uint", size, name)
    if code == gdb.TYPE_CODE_BOOL:
        return Type("bool", size, name)
    if code == gdb.TYPE_CODE_FLT:
        return Type("float", size, name)
    if code == gdb.TYPE_CODE_PTR:
        return Type("pointer", size, name, lambda: convert(kind.target()))
    if code in _REFERENCES:
        return Type("reference", size, name, lambda: convert(kind.target()))
    if code == gdb.TYPE_CODE_ARRAY:
        return Type("array", size, name, lambda: convert(kind.target()))
    if code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return Type("struct", size, name, members=lambda: _members(kind))
    return Type("other", size, name)


def _is_signed(kind: Any, name: str) -> bool:
    try:
        return bool(kind.is_signed)
    except AttributeError:
        return "unsigned" not in name and not name.startswith("uint")
    except ValueError:
        return True  # an enum of gdb 12, which has no sign to tell


def _members(kind: Any) -> Dict[str, Tuple[int, Type]]:
    found: Dict[str, Tuple[int, Type]] = {}
    for field in kind.fields():
        if not hasattr(field, "bitpos") or field.bitsize:
            continue  # a static member, or a bit-field, which has no bytes of its own
        offset = field.bitpos // 8
        if field.is_base_class or not field.name:
            for name, (inner, member) in convert(field.type).members.items():
                found.setdefault(name, (offset + inner, member))
        else:
            found[field.name] = (offset, convert(field.type))
    return found


def is_elsewhere(pc: int, hook: Hook) -> bool:
    """Whether a hook's function was inlined into another one at this place: its arguments may be anything. The frame
    does not tell: gdb skips inlined ones at its own breakpoints, and stops in those that a function begins with."""
    functions = _functions_at(pc)
    if not functions:
        return False
    outer = str(functions[-1].function.name)
    if hook.pattern is not None:
        return re.search(hook.pattern, _name_in(outer + "();")) is None
    return not ("::" + plain_name(outer)).endswith("::" + plain_name(hook.function).partition(".")[0])


def image() -> Any:
    """The program's own object file: another one, or none, after `exec` or a rebuild."""
    found = gdb.objfiles()
    return found[0] if found else None


def _functions_at(pc: int) -> List[Any]:
    """The blocks of functions around an address, the innermost first: more than one where others are inlined there."""
    found = []
    block = gdb.block_for_pc(pc)
    while block is not None and not block.is_static and not block.is_global:
        if block.function is not None:
            found.append(block)
        block = block.superblock
    return found


def reads_c() -> bool:
    """Whether gdb takes expressions in C here, or in C++: at a stop in Rust it reads Rust, with casts of its own."""
    return re.search(r"\bc(\+\+)?\"", execute("show language")) is not None


def is_inlined_into(pc: int) -> bool:
    """Whether the code at an address is of a function that was inlined there: gdb's own expressions are about that."""
    return len(_functions_at(pc)) > 1


class GdbScope(Scope):
    """What names mean inside a function. Raises Absent(NO_SYMBOL)."""

    def __init__(self, pc: int) -> None:
        functions = _functions_at(pc)
        # an inlined function that begins where the hook's own does has other variables, perhaps of the same names
        self._block = functions[-1] if len(functions) > 1 else gdb.block_for_pc(pc)
        # asked of the machine: another language than C has no type `char`
        self.pointer_size = int(gdb.selected_inferior().architecture().integer_type(8).pointer().sizeof)
        self.symbols: Dict[str, Any] = {}

    def variable(self, name: str) -> Variable:
        symbol = self._symbol(name)
        if symbol is None or symbol.type is None:
            raise Absent(NO_SYMBOL, "no symbol %s here" % name)
        try:
            address = None if symbol.needs_frame else symbol.value().address
        except gdb.error as error:
            raise Absent(NO_SYMBOL, "%s has no address: %s" % (name, error)) from None
        if address is None:  # of a frame, or a static one that the compiler took apart
            self.symbols[name] = symbol
            return Variable(name, convert(symbol.type))
        return Variable(name, convert(symbol.type), int(address))

    def _symbol(self, name: str) -> Any:
        block = self._block
        if block is not None:
            symbol = gdb.lookup_symbol(name, block)[0]
            if symbol is not None:
                return symbol
        return gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)

    def type_named(self, name: str) -> Type:
        for spelling in (name, "struct " + name):
            try:
                return convert(gdb.lookup_type(spelling, self._block) if self._block else gdb.lookup_type(spelling))
            except gdb.error:
                continue
        raise Absent(NO_SYMBOL, "no type %s here" % name)

    def vtable(self, name: str) -> int:
        try:
            table = int(gdb.parse_and_eval("(unsigned long)&'vtable for %s'" % name))
        except gdb.error as error:
            raise Absent(NO_SYMBOL, "the vtable of %s: %s" % (name, error)) from None
        return table + 2 * self.pointer_size  # behind the offset to the top and the type information


class Here:
    """Where the program stopped. The frame is made only when something asks for it: unwinding costs a quarter of a
    stop. is_interrupted: Ctrl-C was pressed meanwhile."""

    is_interrupted = False
    _frame: Any = None

    def whole(self, read: Callable[[], _Read]) -> _Read:
        """What it reads, from its beginning again where a Ctrl-C that gdb had kept cuts it short."""
        try:
            return read()
        except KeyboardInterrupt:
            self.is_interrupted = True
            return read()

    @property
    def frame(self) -> Any:
        """The frame of the function that was called. What it begins with may be another one that was inlined there:
        gdb counts that as a frame, with variables of its own."""
        if self._frame is None:
            frame = gdb.newest_frame()
            while frame.type() == gdb.INLINE_FRAME:
                frame = frame.older()
            self._frame = frame
        return self._frame

    @property
    def pc(self) -> int:
        """The address of the next instruction."""
        return int(gdb.parse_and_eval("$pc"))

    def is_real_call(self) -> bool:
        """Whether a hit is the function's own entry: a PLT stub has no function."""
        return self.frame.function() is not None


def is_told_again(here: Here) -> bool:
    """Whether gdb told of this very call before: a signal that comes while gdb steps off a breakpoint makes it stop at
    the same place behind the signal's handler, where it asks the breakpoint again and ignores the answer. It keeps a
    breakpoint of its own for that. Asking costs about a millisecond."""
    place = r"\b0 +high-priority step resume .* 0x0*%x .*\bthread %d$" % (here.pc, thread())
    return re.search(place, execute("maint info breakpoints"), re.M) is not None


_IN_REGISTER = re.compile(r"a variable in (\$\w+)")
_RANGE = re.compile(r"\s+(?:Base address \S+\s+)?Range (0x[0-9a-f]+)-(0x[0-9a-f]+): (.*)")


def in_registers(here: Here, symbols: Dict[str, Any]) -> Dict[str, str]:
    """Which of the variables lie in a register at this place, by what gdb tells of their location: name -> register.

    A register is read without making a frame. Each is compared with the variable itself once.
    """
    pc = here.pc
    if len(_functions_at(pc)) != 1:
        return {}
    try:
        lines = str(gdb.execute("info scope *%d" % pc, to_string=True)).splitlines()
    except gdb.error:
        return {}
    found: Dict[str, str] = {}
    name = ""
    for line in lines:
        said = re.match(r"Symbol (\w+) is (.*)", line)
        if said is not None:
            name, place = said.group(1), said.group(2)
        else:
            range_ = _RANGE.match(line)
            if range_ is None or not int(range_.group(1), 16) <= pc < int(range_.group(2), 16):
                continue
            place = range_.group(3)
        register = _IN_REGISTER.match(place)
        if register is not None and name in symbols and name not in found:
            found[name] = register.group(1)
    return {name: register for name, register in found.items() if _holds(here, symbols[name], register)}


def at_frame_base(pc: int) -> Set[str]:
    """Which variables lie at a distance from the register that is the frame's base, as clang keeps them without
    optimisation: gdb 13 makes tracepoints collect that register instead, or fails."""
    return set(re.findall(r"Symbol (\w+) is a variable at frame base reg", execute("info scope *%d" % pc)))


def _holds(here: Here, symbol: Any, register: str) -> bool:
    try:
        value = symbol.value(here.frame)
        size = int(value.type.strip_typedefs().sizeof)
        mask = (1 << 8 * size) - 1
        return size <= 8 and int.from_bytes(_bytes_of(value, size), "little") == _register(register) & mask
    except (gdb.error, ValueError, Absent):
        return False


def _register(name: str) -> int:
    return int(gdb.parse_and_eval(name))


_evaluate = gdb.parse_and_eval


class GdbMemory(Memory):
    """Memory and variables at a place, one hit after the other. registers: see in_registers."""

    errors = (Absent, gdb.error, OverflowError, ValueError)

    def __init__(self, symbols: Dict[str, Any], registers: Optional[Dict[str, str]] = None) -> None:
        self._symbols, self._registers = symbols, registers or {}
        self._ways: Dict[Tuple[Load, ...], List[Tuple[str, int, int]]] = {}

    def at(self, here: Here) -> "GdbMemory":
        """As it is at this hit."""
        self._here = here
        self.read_block = gdb.selected_inferior().read_memory
        return self

    def read_scalars(self, wanted: Tuple[Load, ...]) -> Sequence[Any]:
        ways = self._ways.get(wanted)
        if ways is None:
            ways = self._ways[wanted] = self._in_registers(wanted)
        if not ways:
            return super().read_scalars(wanted)
        return [((int(_evaluate(register)) & mask) ^ sign) - sign for register, mask, sign in ways]

    def _in_registers(self, wanted: Tuple[Load, ...]) -> List[Tuple[str, int, int]]:
        """(register, its bits that count, the one of them that is the sign), or none where one lies elsewhere."""
        ways = []
        for load in wanted:
            register, bits = self._registers.get(load.space.base), 8 * load.size
            if register is None or load.kind == "float":
                return []
            ways.append((register, (1 << bits) - 1, 1 << bits - 1 if load.kind == "int" else 0))
        return ways

    def read_variable(self, key: str, size: int) -> bytes:
        try:
            if key.startswith("$"):
                return _bytes_of(self._here.frame.read_register(key[1:]), size)
            value = self._symbols[key].value(self._here.frame)
            if value.is_optimized_out:
                raise Absent(OPTIMIZED_OUT, "%s is optimized out" % key)
            return _bytes_of(value, size)
        except (gdb.error, ValueError) as error:
            why = OPTIMIZED_OUT if "optimized" in str(error) else UNREADABLE
            raise Absent(why, "%s: %s" % (key, error)) from None


def _bytes_of(value: Any, size: int) -> bytes:
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_FLT:
        return struct.pack("<d" if kind.sizeof == 8 else "<f", float(value))
    if kind.code in _REFERENCES:
        return int(value.referenced_value().address).to_bytes(int(kind.sizeof), "little")
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_ARRAY):
        if value.address is None:
            return _joined(value)[:size]
        return bytes(gdb.selected_inferior().read_memory(int(value.address), size))
    n = int(kind.sizeof)
    return (int(value) & ((1 << 8 * n) - 1)).to_bytes(n, "little")


def _joined(value: Any) -> bytes:
    """The bytes of a struct or an array that lies in registers, put together from its parts."""
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        first, last = kind.range()
        size = int(kind.target().sizeof)
        parts = [((i - first) * size, value[i]) for i in range(first, last + 1)]
    else:
        # static members have no place, and bits of a word are asked for by nothing
        fields = [f for f in kind.fields() if hasattr(f, "bitpos") and not f.bitsize]
        parts = [(f.bitpos // 8, value[f]) for f in fields]
    out = bytearray(int(kind.sizeof))
    for at, part in parts:
        size = int(part.type.strip_typedefs().sizeof)
        out[at : at + size] = _bytes_of(part, size)
    return bytes(out)


# -- places ----------------------------------------------------------------------------------------------------------


def location(hook: Hook) -> List[str]:
    """Breakpoint locations for a hook's function; a /regex/ gives one for each function it matches, perhaps none."""
    pattern = hook.pattern
    names = [hook.function] if pattern is None else _matching(pattern)
    source = "-source %s " % hook.file if hook.file else ""
    return ["%s-qualified -function %s" % (source, name) for name in names]


def _matching(pattern: str) -> List[str]:
    """Names of functions, without parameters, in which the pattern is found. gdb's own expressions are of another
    kind than everywhere else here, so gdb only lists."""
    wanted = re.compile(pattern)
    found = {_name_in(line) for line in execute("info functions -q -n").splitlines()}
    return sorted(name for name in found if name and wanted.search(name))


def _name_in(declaration: str) -> str:
    """`12:\tstatic int ns::T<long>::f(int, float);` gives ns::T<long>::f."""
    text = declaration.rstrip().replace("(anonymous namespace)", _UNNAMED)
    if not text.endswith(";") or "(" not in text:
        return ""
    name, depth = "", 0
    for letter in reversed(text[: text.index("(")]):
        depth += (letter == ">") - (letter == "<")
        if letter in " \t*&" and not depth:
            break
        name = letter + name
    return name.replace(_UNNAMED, "(anonymous namespace)")


_UNNAMED = "unnamed\0"


def is_stub(pc: int) -> bool:
    """Whether an address lies in a linker's stub for a function of a library."""
    try:
        told = execute("info symbol %d" % pc)
    except Absent:
        return False
    return "@plt" in told or "in section .plt" in told


def function_at(pc: int) -> Optional[Tuple[str, str, int]]:
    """(name, file, line) of the function that debug information knows at an address, as C++ tells it from others, and
    where it is written; None where there is none. Clones and parts of one, as those for errors, are all the same."""
    functions = _functions_at(pc)
    if not functions:
        return None
    symbol = functions[-1].function
    return str(symbol.print_name), str(symbol.symtab.filename), int(symbol.line)


def has_variables(pc: int) -> bool:
    """Whether the debug information at an address tells of arguments or locals: -g1 leaves them out."""
    return any(True for block in _functions_at(pc) for _ in block)


def where(place: str) -> List[Tuple[int, str, int]]:
    """(pc, file, line) of every location that gdb would stop at. Empty while it is not loaded."""
    try:
        # decode_line takes no options such as -qualified
        text = execute("info line " + place)
    except Absent:
        return []
    found = []
    for line in text.splitlines():
        address = re.search(r"address (0x[0-9a-f]+)", line)
        if address is not None:
            pc = int(address.group(1), 16)
            sal = gdb.find_pc_line(pc)
            found.append((pc, sal.symtab.fullname() if sal.symtab else "", int(sal.line)))
    return found


def tracepoint(pc: int) -> int:
    """A tracepoint at an address, without actions: its number. Raises Absent."""
    execute("trace *%d" % pc)
    return int(gdb.convenience_variable("tpnum"))


def set_actions(number: int, lines: List[str]) -> None:
    """What a tracepoint collects. Raises Absent for a line that this gdb or the target cannot compile."""
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file:  # only a file may hold a list of actions
        file.write("actions %d\n%s\nend\n" % (number, "\n".join(lines)))
        file.flush()
        execute('source "%s"' % file.name if " " in file.name else "source " + file.name)


def of_kinds(symbols: Dict[str, Any], *kinds: str) -> Set[str]:
    """Which variables are of these layout.Type kinds."""
    return {name for name, symbol in symbols.items() if convert(symbol.type).kind in kinds}


def structs_in_registers(symbols: Dict[str, Any], here: Here) -> Set[str]:
    """Which of the variables are structs that lie in registers at this hit, not in memory."""
    structs = of_kinds(symbols, "struct", "array")
    return {name for name in structs if symbols[name].value(here.frame).address is None}


class Stop(gdb.Breakpoint):
    """A breakpoint that calls back. on_hit(here) returns True to stop the program; nothing that it raises reaches gdb.
    name: what the user calls its place."""

    def __init__(
        self, place: str, on_hit: Callable[[Here], bool], on_error: Callable[[str], None], name: str = ""
    ) -> None:
        super().__init__(place, internal=True)
        self.name = name
        self.silent = True
        self._on_hit = guarded(on_hit, on_error)
        answers = self._answers()
        next(answers)
        self.stop = answers.__next__

    def _answers(self) -> Iterator[bool]:
        """What gdb gets at each hit, where it asks the breakpoint's `stop`.

        Ctrl-C waits until a hit is taken in whole: it is gdb's own where the program was attached to or is remote. One
        that came before is raised as soon as Python runs: in a function that is before its first line, where nothing
        catches it, in a generator where it goes on.
        """
        answer = False
        while True:
            here = Here()
            try:
                yield answer
                _hold_ctrl_c()
            except KeyboardInterrupt:
                here.is_interrupted = True
                _hold_ctrl_c()
            answer = bool(self._on_hit(here))
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _CTRL_C)
            except KeyboardInterrupt:
                here.is_interrupted = True
            if here.is_interrupted:
                say("\nstepscope: stopped by Ctrl-C")
                answer = True

    @property
    def only_place(self) -> Optional[int]:
        """The one address where it stops; None where there are several, or where this gdb cannot tell."""
        places = [place.address for place in getattr(self, "locations", ()) if place.address]
        return int(places[0]) if len(places) == 1 else None

    @property
    def is_pending(self) -> bool:
        """Whether its place is not loaded yet."""
        return bool(self.pending)


def on_exit(action: Callable[[Optional[int]], None]) -> None:
    """Call action(exit code) when the program ends; None where a signal ended it, or where gdb let go of it."""
    act = guarded(action)
    gdb.events.exited.connect(lambda event: act(getattr(event, "exit_code", None)))


def on_gdb_exit(action: Callable[[], None]) -> None:
    """Call it before gdb ends."""
    if hasattr(gdb.events, "gdb_exiting"):
        act = guarded(action)
        gdb.events.gdb_exiting.connect(lambda event: act())


def on_new_symbols(action: Callable[[], None]) -> None:
    """Call it when a program or library was loaded."""
    act = guarded(action)
    gdb.events.new_objfile.connect(lambda event: act())


Error = gdb.error
Command = gdb.Command
COMMAND_CLASS = gdb.COMMAND_DATA
COMPLETE_FILENAME = gdb.COMPLETE_FILENAME
GdbError = gdb.GdbError
string_to_argv = gdb.string_to_argv
