"""The small language of hook specs: C expressions that name memory, with slices, and nothing that could act.

    st->seq_len     ubatch.token[0]     *(llama_kv_cache **)&this->memory     st->cache_len[:st->cfg.n_layers]     $rsi

`base[:n].used`, a member behind a slice, is that member of each element; `base[:n][0]`, a position behind a slice of
pointers, is what each of them points to. There are no calls, no assignments, no casts but to pointers: an expression
cannot change the program it looks at.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union


class ExpressionError(ValueError):
    """An expression that is not of this language; the message says where."""


class Number(NamedTuple):
    """An integer constant."""

    value: int


class Name(NamedTuple):
    """An argument, a local or a global, `this`, or a C++ qualified name."""

    text: str


class Register(NamedTuple):
    """A register, without its $."""

    name: str


class Member(NamedTuple):
    """`base.name`, or `base->name`."""

    base: "Node"
    name: str
    arrow: bool


class Index(NamedTuple):
    """`base[position]`"""

    base: "Node"
    position: "Node"


class Slice(NamedTuple):
    """`base[start:length]` in words of gdb: `length` elements from `start` on. Written base[:length].

    members: of each element, as written: (".kv", "->used").
    """

    base: "Node"
    start: Optional["Node"]
    length: "Node"
    members: Tuple[str, ...] = ()


class Unary(NamedTuple):
    """`*x`, `&x` or `-x`."""

    operator: str
    operand: "Node"


class Cast(NamedTuple):
    """`(type *…)x`: the type's name, and how many stars."""

    type_name: str
    stars: int
    operand: "Node"


class DynamicCast(NamedTuple):
    """`dynamic_cast<type *>(x)`: the object if its vtable says that it is of exactly this class, else absent."""

    type_name: str
    operand: "Node"


class Binary(NamedTuple):
    """`a + b`, `a - b`, `a * b`; on pointers, + and - count elements as in C."""

    operator: str
    left: "Node"
    right: "Node"


Node = Union[Number, Name, Register, Member, Index, Slice, Unary, Cast, DynamicCast, Binary]

_NODES = (Number, Name, Register, Member, Index, Slice, Unary, Cast, DynamicCast, Binary)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|[0-9]+)|(?P<register>\$\w+)|(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)"
    r"|(?P<op>->|::|[-+*&().\[\]:<>,]))"
)
_MAX_LENGTH = 1000
_MAX_DEPTH = 50


def parse(text: str) -> Node:
    """The expression as a tree. Raises ExpressionError."""
    if len(text) > _MAX_LENGTH:
        raise ExpressionError("longer than %d characters" % _MAX_LENGTH)
    parser = _Parser(_tokens(text), text)
    node = parser.expression()
    parser.expect_end()
    _expect_bounded(node)
    return node


def substitute(node: Node, names: Dict[str, Node]) -> Node:
    """The expression with some names replaced by what they stand for. Raises ExpressionError where it grows too
    large: names that stand for names double it each time."""
    whole = _replaced(node, names)
    _expect_bounded(whole)
    return whole


def _replaced(node: Node, names: Dict[str, Node]) -> Node:
    if isinstance(node, Name):
        return names.get(node.text, node)
    make: Callable[..., Node] = type(node)
    return make(*[_replaced(part, names) if isinstance(part, _NODES) else part for part in node])


def _expect_bounded(node: Node) -> None:
    """Everything that walks over an expression recurses once a level, inside gdb's own Python."""
    size, level = 0, [node]
    for _ in range(_MAX_DEPTH):
        size += len(level)
        if size > _MAX_LENGTH:
            raise ExpressionError("more than %d parts" % _MAX_LENGTH)
        level = [part for outer in level for part in parts(outer)]
        if not level:
            return
    raise ExpressionError("nested too deeply: more than %d levels" % _MAX_DEPTH)


def parts(node: Node) -> Iterator[Node]:
    """The expressions that one is made of, in its own order."""
    return (part for part in node if isinstance(part, _NODES))


def mentions(node: Node, register: str) -> bool:
    """Whether `$register` stands somewhere in the expression."""
    if isinstance(node, Register):
        return node.name == register
    return any(mentions(part, register) for part in parts(node))


def _tokens(text: str) -> List[Tuple[str, str, int]]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError("%r at column %d is not part of an expression" % (text[at:].lstrip()[:1], at + 1))
        found.append((str(match.lastgroup), match.group(str(match.lastgroup)), match.start(str(match.lastgroup))))
        at = match.end()
    return found


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: List[Tuple[str, str, int]], text: str) -> None:
        self._tokens, self._text, self._at, self._depth = tokens, text, 0, 0

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ExpressionError("nested too deeply")
        node = self._product()
        while self._next() in ("+", "-"):
            operator = self._take()
            node = Binary(operator, node, self._product())
        self._depth -= 1
        return node

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            self._fail("%r is not expected here" % self._next())

    def _product(self) -> Node:
        node = self._unary()
        while self._next() == "*":
            self._take()
            node = Binary("*", node, self._unary())
        return node

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ExpressionError("nested too deeply")
        try:
            if self._next() in ("*", "&", "-"):
                return Unary(self._take(), self._unary())
            cast = self._cast()
            return cast if cast is not None else self._postfix()
        finally:
            self._depth -= 1

    def _cast(self) -> Optional[Node]:
        """`(name *)x`, where a parenthesis holds a type: it ends with a star."""
        start = self._at
        if self._next() != "(":
            return None
        self._at += 1
        if self._next() in ("struct", "class", "const"):
            self._at += 1
        if not self._is_name():
            self._at = start
            return None
        name = self._type_name()
        stars = 0
        while self._next() == "*":
            stars, self._at = stars + 1, self._at + 1
        if not stars or self._next() != ")":
            self._at = start
            return None
        self._at += 1
        return Cast(name, stars, self._unary())

    def _type_name(self) -> str:
        """A type's name with its template arguments, spaces as written."""
        begin = self._tokens[self._at][2]
        depth = 0
        while self._at < len(self._tokens):
            token = self._next()
            if depth == 0 and (token in ("*", ")") or not (self._is_name() or token in ("<", "::"))):
                break
            depth += (token == "<") - (token == ">")
            self._at += 1
        end = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        return self._text[begin:end].strip()

    def _postfix(self) -> Node:
        node = self._primary()
        while True:
            token = self._next()
            if token in (".", "->"):
                self._take()
                if not self._is_name():
                    self._fail("a member's name is expected")
                name = self._take()
                if isinstance(node, Slice):
                    node = node._replace(members=(*node.members, token + name))
                else:
                    node = Member(node, name, token == "->")
            elif token == "[":
                self._take()
                node = self._subscript(node)
            else:
                return node

    def _subscript(self, base: Node) -> Node:
        start = None if self._next() == ":" else self.expression()
        if self._next() == ":":
            self._take()
            node: Node = Slice(base, start, self.expression())
        elif start is not None:
            node = Index(base, start)
        self._expect("]")
        return node

    def _primary(self) -> Node:
        if self._at == len(self._tokens):
            self._fail("the expression ends too early")
        kind, token, _ = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return Number(self._number(token))
        if kind == "register":
            return Register(token[1:])
        if token == "dynamic_cast":
            return self._dynamic_cast()
        if kind == "name":
            if self._next() == "(":
                self._fail("%s(…) is a call; an expression only reads memory" % token)
            return Name(token)
        if token == "(":
            node = self.expression()
            self._expect(")")
            return node
        self._at -= 1
        raise self._error("%r is not expected here" % token)

    def _dynamic_cast(self) -> Node:
        self._expect("<")
        name = self._type_name()
        self._expect("*")
        self._expect(">")
        self._expect("(")
        node = self.expression()
        self._expect(")")
        return DynamicCast(name, node)

    def _number(self, token: str) -> int:
        try:
            octal = len(token) > 1 and token[0] == "0" and token[1] not in "xX"
            number = int(token, 8) if octal else int(token, 0)
        except ValueError:
            self._at -= 1
            raise self._error("%r is not a number" % token) from None
        if number >> 64:
            self._at -= 1
            raise self._error("%.24s does not fit into 64 bits" % token)
        return number

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _is_name(self) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at][0] == "name"

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _expect(self, token: str) -> None:
        if self._next() != token:
            self._fail("%r is expected" % token)
        self._at += 1

    def _fail(self, problem: str) -> None:
        raise self._error(problem)

    def _error(self, problem: str) -> ExpressionError:
        column = self._tokens[self._at][2] + 1 if self._at < len(self._tokens) else len(self._text) + 1
        return ExpressionError("%s (column %d of %.200r)" % (problem, column, self._text))
