"""The requests the embedded model answers: what they ask for, how they are worded, what the right answer is.

The training script and the held-out tests draw from here, so the right answer is always computed by plain
Python from the lists below, never by the model. A request has two independent parts: its **triple** (which
list, where it starts, how many items, and in which direction) and its **phrasing** (an opener such as
"Give me" and a core such as "the first {n} {nouns}"). Both are split, deterministically, into a part that
training sees and a part that it never sees.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Listing:
    """An ordered list that can be asked for; a cyclic one goes on from its first item after its last."""

    items: tuple[str, ...]
    noun: str
    whole: str
    name: str
    cyclic: bool


LISTINGS = {
    "letters": Listing(
        tuple("abcdefghijklmnopqrstuvwxyz"), "letter", " of the alphabet", "the alphabet", False,
    ),
    "numbers": Listing(tuple(str(n) for n in range(101)), "number", "", "", False),
    "days": Listing(
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        "day", " of the week", "the week", True,
    ),
    "months": Listing(
        ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
         "November", "December"),
        "month", " of the year", "the year", True,
    ),
}  # fmt: skip
LISTING_WEIGHTS = {"letters": 35, "numbers": 30, "days": 13, "months": 22}


@dataclass(frozen=True)
class Triple:
    """What is asked for: `count` items of `listing` from index `start`, up (step 1) or down (step -1)."""

    listing: str
    start: int
    count: int
    step: int = 1


class Request(NamedTuple):
    """One request as a user types it, and the exact text that answers it."""

    text: str
    answer: str


def answer_to(triple: Triple) -> str:
    """The items asked for, separated by spaces."""
    items = LISTINGS[triple.listing].items
    return " ".join(items[(triple.start + triple.step * k) % len(items)] for k in range(triple.count))


# Chosen, before any training, so that each list holds out some but few of its "first n" and "last n".
_SPLIT = "split 603"
# Always part of training: the first request a newcomer makes, the complete lists, and the pairs at the start
# of a list, without which nothing would ever end at the second letter, or go down to the first.
_ALWAYS_SEEN = {
    Triple("letters", 0, 6),
    Triple("numbers", 1, 100),
    Triple("letters", 0, 2),
    Triple("letters", 1, 2, -1),
    Triple("numbers", 0, 2),
    Triple("numbers", 1, 2, -1),
} | {
    Triple(name, start, len(LISTINGS[name].items), step)
    for name in ("letters", "days", "months")
    for start, step in ((0, 1), (len(LISTINGS[name].items) - 1, -1))
}


def is_held_out(triple: Triple) -> bool:
    """Whether training never sees this triple, in whatever words: about one in eight, picked by a hash.

    Single items are all seen: which letter is the ninth is knowledge, which nothing else could teach.
    """
    if triple.count == 1 or triple in _ALWAYS_SEEN:
        return False
    key = f"{_SPLIT} {triple.listing} {triple.start} {triple.count} {triple.step}"
    return hashlib.sha256(key.encode()).digest()[0] % 8 == 0


# --- numbers in words -------------------------------------------------------------------------------------

_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth", "twenty": "twentieth",
}  # fmt: skip


def number_word(n: int) -> str:
    """The cardinal of 0..100 in words."""
    if n == 100:
        return "one hundred"
    if n < 20:
        return _UNITS[n]
    return _TENS[n // 10] + (f"-{_UNITS[n % 10]}" if n % 10 else "")


def ordinal(n: int, in_words: bool) -> str:
    """The ordinal of 1..29, as "third" or as "3rd"."""
    if not in_words:
        suffix = "th" if 11 <= n <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
        return f"{n}{suffix}"
    head, dash, last = number_word(n).rpartition("-")
    return head + dash + _ORDINALS.get(last, last + "th")


# --- what can be asked ------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """A drawn triple with the values that its wording needs: a count, a start and an end, as indices."""

    triple: Triple
    n: int = 0
    start: int = 0
    end: int = 0


Draw = Callable[[random.Random, str], Plan]


def _size(name: str) -> int:
    return len(LISTINGS[name].items)


def _draw_first(rng: random.Random, name: str) -> Plan:
    if name == "numbers":
        n = rng.randint(2, 20) if rng.random() < 0.7 else rng.randint(21, 40)
        return Plan(Triple(name, 1, n), n=n)
    n = rng.randint(2, _size(name))
    return Plan(Triple(name, 0, n), n=n)


def _draw_last(rng: random.Random, name: str) -> Plan:
    n = rng.randint(2, _size(name))
    return Plan(Triple(name, _size(name) - n, n), n=n)


def _draw_first_reversed(rng: random.Random, name: str) -> Plan:
    n = rng.randint(2, min(_size(name), 12))
    return Plan(Triple(name, n - 1, n, -1), n=n)


def _draw_last_reversed(rng: random.Random, name: str) -> Plan:
    n = rng.randint(2, min(_size(name), 12))
    return Plan(Triple(name, _size(name) - 1, n, -1), n=n)


def _draw_start(rng: random.Random, name: str, low: int, high: int) -> int:
    """An index in low..high; small numbers are asked for more often than large ones."""
    if name == "numbers" and rng.random() < 0.6:
        high = min(high, max(low, 25))
    return rng.randint(low, high)


def _draw_from(rng: random.Random, name: str) -> Plan:
    size = _size(name)
    if LISTINGS[name].cyclic:
        start, n = rng.randrange(size), rng.randint(2, size)
    else:
        start = _draw_start(rng, name, 0, size - 2)
        n = rng.randint(2, min(12 if rng.random() < 0.6 else 26, size - start))
    return Plan(Triple(name, start, n), n=n, start=start)


def _draw_after(rng: random.Random, name: str) -> Plan:
    size = _size(name)
    if LISTINGS[name].cyclic:
        start, n = rng.randrange(size), rng.randint(2, size - 1)
    else:
        start = _draw_start(rng, name, 0, size - 3)
        n = rng.randint(2, min(10, size - start - 1))
    return Plan(Triple(name, (start + 1) % size, n), n=n, start=start)


def _draw_backwards_from(rng: random.Random, name: str) -> Plan:
    start = _draw_start(rng, name, 2, _size(name) - 1)
    n = rng.randint(2, min(10 if rng.random() < 0.7 else 20, start))
    return Plan(Triple(name, start, n, -1), n=n, start=start)


def _draw_range(rng: random.Random, name: str) -> Plan:
    size = _size(name)
    if LISTINGS[name].cyclic:
        start, n = rng.randrange(size), rng.randint(2, size)
    else:
        start = _draw_start(rng, name, 0, size - 2)
        n = rng.randint(2, min(20 if rng.random() < 0.8 else 60, size - start))
    return Plan(Triple(name, start, n), start=start, end=(start + n - 1) % size)


def _draw_range_down(rng: random.Random, name: str) -> Plan:
    start = _draw_start(rng, name, 1, _size(name) - 1)
    n = rng.randint(2, min(20, start + 1))
    return Plan(Triple(name, start, n, -1), start=start, end=start - n + 1)


def _draw_up_to(rng: random.Random, name: str) -> Plan:
    first = 1 if name == "numbers" else 0
    end = rng.randint(first + 1, min(_size(name) - 1, 40))
    return Plan(Triple(name, first, end - first + 1), start=first, end=end)


def _draw_to_the_end(rng: random.Random, name: str) -> Plan:
    start = rng.randint(0, _size(name) - 2)
    return Plan(Triple(name, start, _size(name) - start), start=start, end=_size(name) - 1)


def _draw_whole(rng: random.Random, name: str) -> Plan:
    return Plan(Triple(name, 0, _size(name)))


def _draw_whole_reversed(rng: random.Random, name: str) -> Plan:
    return Plan(Triple(name, _size(name) - 1, _size(name), -1))


def _draw_nth(rng: random.Random, name: str) -> Plan:
    n = rng.randint(1, _size(name))
    return Plan(Triple(name, n - 1, 1), n=n)


def _draw_nth_from_the_end(rng: random.Random, name: str) -> Plan:
    n = rng.randint(2, _size(name))
    return Plan(Triple(name, _size(name) - n, 1), n=n)


def _draw_very_last(rng: random.Random, name: str) -> Plan:
    return Plan(Triple(name, _size(name) - 1, 1))


def _draw_next(rng: random.Random, name: str) -> Plan:
    start = _draw_start(rng, name, 0, _size(name) - 2)
    return Plan(Triple(name, start + 1, 1), start=start)


def _draw_previous(rng: random.Random, name: str) -> Plan:
    start = _draw_start(rng, name, 1, _size(name) - 1)
    return Plan(Triple(name, start - 1, 1), start=start)


def _draw_count_to(rng: random.Random, name: str) -> Plan:
    n = rng.randint(2, 30) if rng.random() < 0.75 else rng.randint(31, 100)
    return Plan(Triple(name, 1, n), n=n, start=1, end=n)


def _draw_count_down(rng: random.Random, name: str) -> Plan:
    n = rng.randint(2, 25) if rng.random() < 0.85 else rng.randint(26, 40)
    return Plan(Triple(name, n, n, -1), n=n, start=n, end=1)


# --- how it is worded -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """One thing to ask, the wordings training sees and those it never sees.

    `{n}` is a count, `{nth}` its ordinal, `{s}` and `{e}` the first and last item named, `{nouns}` e.g.
    "letters", `{noun}` "letter", `{whole}` " of the alphabet" or nothing, `{name}` "the alphabet".
    A `clause` is a whole sentence ("count to {n}"); any other form is a thing to list.
    """

    draw: Draw
    weight: float
    listings: tuple[str, ...]
    seen: tuple[str, ...]
    held_out: tuple[str, ...]
    clause: bool = False


ALL = ("letters", "numbers", "days", "months")
NAMED = ("letters", "days", "months")
LINEAR = ("letters", "numbers")
NUMBERS = ("numbers",)

FORMS = (
    Form(_draw_first, 4, ALL, (
        "the first {n} {nouns}{whole}", "the first {n} {nouns}{whole}", "the first {n} {nouns}",
        "first {n} {nouns}{whole}", "{n} {nouns}{whole} from the start", "the {n} first {nouns}",
        "the first {n} {nouns}{whole} in order", "{n} {nouns}", "{n} {nouns}{whole}",
    ), ("the {n} first {nouns}{whole}", "first {n} {nouns} in order", "{n} {nouns} from the very start")),
    Form(_draw_last, 3, NAMED, (
        "the last {n} {nouns}{whole}", "the last {n} {nouns}{whole}", "the last {n} {nouns}",
        "last {n} {nouns}{whole}", "the final {n} {nouns}{whole}", "the last {n} {nouns}{whole} in order",
    ), ("the final {n} {nouns}", "last {n} {nouns} in order")),
    Form(_draw_from, 4, ALL, (
        "{n} {nouns} starting from {s}", "{n} {nouns} starting with {s}", "{n} {nouns} from {s}",
        "the {n} {nouns} starting at {s}", "{n} {nouns}{whole} starting from {s}",
        "the first {n} {nouns} from {s}", "{n} {nouns} from {s} on", "{n} {nouns}, starting from {s}",
    ), ("the {n} {nouns} starting with {s}", "{n} {nouns} starting at {s}", "the {n} {nouns} from {s} on",
        "{n} {nouns}{whole}, starting with {s}")),
    Form(_draw_after, 1.5, ALL, (
        "the {n} {nouns} after {s}", "the next {n} {nouns} after {s}", "{n} {nouns} after {s}",
        "the {n} {nouns} that come after {s}",
    ), ("{n} {nouns} that come after {s}", "the {n} {nouns}{whole} after {s}")),
    Form(_draw_range, 2.5, ALL, (
        "the {nouns} from {s} to {e}", "{nouns} from {s} to {e}", "the {nouns} {s} to {e}",
        "all {nouns} from {s} to {e}", "the {nouns}{whole} from {s} to {e}", "{s} to {e}",
        "the {nouns} from {s} up to {e}", "{nouns} beginning with {s} and ending with {e}",
    ), ("all the {nouns} from {s} to {e}", "the {nouns} starting from {s} up to {e}", "from {s} to {e}")),
    Form(_draw_range_down, 1.2, LINEAR, (
        "the {nouns} from {s} down to {e}", "the {nouns} from {s} back to {e}",
        "{nouns} from {s} down to {e}", "all {nouns} from {s} back to {e}",
    ), ("{nouns} from {s} back to {e}", "all the {nouns} from {s} down to {e}")),
    Form(_draw_up_to, 2.5, ALL, (
        "the {nouns} up to {e}", "all {nouns} up to {e}", "the {nouns}{whole} up to {e}",
        "the {nouns} from the start to {e}",
    ), ("{nouns} up to {e}", "all the {nouns} up to {e}")),
    Form(_draw_to_the_end, 1.5, NAMED, (
        "the {nouns} from {s} to the end", "the {nouns}{whole} from {s} on",
        "all {nouns} from {s} to the end", "{nouns} from {s} to the end of {name}",
    ), ("all the {nouns} from {s} on", "the {nouns} from {s} to the end of {name}")),
    Form(_draw_whole, 0.6, NAMED, (
        "the {nouns}{whole}", "all the {nouns}{whole}", "all {nouns}{whole}", "every {noun}{whole}",
        "all the {nouns}", "the {nouns}{whole} in order",
    ), ("all of the {nouns}{whole}", "every {noun}{whole} in order")),
    Form(_draw_whole, 1, ("letters",), (
        "{name}", "{name}", "the whole alphabet", "{name} from a to z",
    ), ("all of the alphabet", "{name} in order")),
    Form(_draw_whole_reversed, 0.5, ("letters",), (
        "{name} backwards", "the whole alphabet in reverse", "{name} in reverse order", "{name} from z to a",
    ), ("the whole alphabet backwards", "{name} in reverse")),
    Form(_draw_whole_reversed, 0.3, NAMED, (
        "the {nouns}{whole} backwards", "all the {nouns}{whole} in reverse order",
        "the {nouns}{whole} in reverse", "all {nouns} backwards",
    ), ("every {noun}{whole} in reverse order", "all the {nouns} backwards")),
    Form(_draw_first_reversed, 1, NAMED, (
        "the first {n} {nouns}{whole} backwards", "the first {n} {nouns} in reverse order",
        "the first {n} {nouns}{whole} in reverse", "first {n} {nouns} backwards",
    ), ("the first {n} {nouns}{whole} in reverse order", "the first {n} {nouns} backwards")),
    Form(_draw_last_reversed, 1, NAMED, (
        "the last {n} {nouns}{whole} backwards", "the last {n} {nouns} in reverse order",
        "the last {n} {nouns}{whole} in reverse", "last {n} {nouns} backwards",
    ), ("the last {n} {nouns}{whole} in reverse order", "the last {n} {nouns} backwards")),
    Form(_draw_backwards_from, 1.5, LINEAR, (
        "{n} {nouns} backwards from {s}", "{n} {nouns} going down from {s}",
        "{n} {nouns} going back from {s}", "the {n} {nouns} backwards from {s}",
        "{n} {nouns} backwards, starting from {s}",
    ), ("{n} {nouns} backwards starting with {s}", "the {n} {nouns} going down from {s}")),
    Form(_draw_nth, 1.2, NAMED, (
        "the {nth} {noun}{whole}", "the {nth} {noun}", "{noun} number {n}{whole}", "{noun} number {n}",
    ), ("the {noun} number {n}{whole}",)),
    Form(_draw_nth_from_the_end, 1.2, NAMED, (
        "the {nth} {noun} from the end", "the {nth} {noun} from the end of {name}", "the {nth} last {noun}",
        "the {nth} last {noun}{whole}",
    ), ("the {nth} {noun}{whole} from the end",)),
    Form(_draw_very_last, 0.3, NAMED, (
        "the last {noun}{whole}", "the last {noun}", "the final {noun}{whole}",
    ), ("the final {noun}", "the very last {noun}{whole}")),
    Form(_draw_next, 0.6, ALL, (
        "the {noun} after {s}", "the next {noun} after {s}", "the {noun} that comes after {s}",
    ), ("the {noun}{whole} after {s}", "the {noun} right after {s}")),
    Form(_draw_previous, 0.6, ALL, (
        "the {noun} before {s}", "the {noun} that comes before {s}", "the {noun} just before {s}",
    ), ("the {noun}{whole} before {s}", "the {noun} right before {s}")),
    Form(_draw_count_to, 3, NUMBERS, (
        "count to {n}", "count up to {n}", "count from 1 to {n}", "count from one to {n}",
        "count up to {n} from 1", "count the numbers to {n}", "count all the numbers up to {n}",
    ), ("count from one up to {n}", "count all the way to {n}"), clause=True),
    Form(_draw_range, 1.5, NUMBERS, (
        "count from {s} to {e}", "count up from {s} to {e}", "start at {s} and count to {e}",
    ), ("count from {s} up to {e}", "start at {s} and count up to {e}"), clause=True),
    Form(_draw_count_down, 2.5, NUMBERS, (
        "count down from {s}", "count backwards from {s}", "count down from {s} to 1",
        "count down from {s} to one", "countdown from {s}",
    ), ("count back from {s} to 1", "count backwards from {s} to one"), clause=True),
    Form(_draw_range_down, 1.2, NUMBERS, (
        "count down from {s} to {e}", "count backwards from {s} to {e}", "start at {s} and count down to {e}",
    ), ("count from {s} down to {e}", "start at {s} and count backwards to {e}"),
        clause=True),
)  # fmt: skip

# Openers of a thing to list, then of a clause. The most common ones stand more than once.
OPENERS = (
    "List", "List", "List", "Name", "Name", "Give me", "Give me", "What are", "What are", "Say", "Say",
    "Write", "Write", "Show", "Show me", "Please list", "Please list", "Please name", "Please give me",
    "Please write", "Please say", "Can you list", "Can you name", "Could you give me", "Could you list",
    "I want", "I need", "I would like", "Tell me", "Write down", "Print", "Now list", "Now give me",
    "Would you say", "Type", "",
)  # fmt: skip
HELD_OUT_OPENERS = (
    "Please show me", "Could you name", "Can you give me", "Please tell me", "Now name",
    "Could you please list", "I would like you to list", "Write out", "Please print", "Would you list",
    "Recite", "Display",
)  # fmt: skip
CLAUSE_OPENERS = (
    "", "", "", "", "Please", "Please", "Can you", "Could you", "Now", "I want you to", "Would you",
)  # fmt: skip
HELD_OUT_CLAUSE_OPENERS = ("Now please", "Could you please", "I would like you to", "Can you please")
ENDINGS = ("", "", "", "", ".", ".", " please", ", please", " please.", ", please.", "!", " for me", " now")
QUESTION_OPENERS = ("What", "Can", "Could", "Would")


def _spell(rng: random.Random, n: int) -> str:
    """The number in digits or, where that is one word, in words."""
    one_word = n <= 20 or n % 10 == 0
    return number_word(n) if one_word and rng.random() < 0.5 else str(n)


def _slots(rng: random.Random, name: str, plan: Plan) -> dict[str, str]:
    listing = LISTINGS[name]
    start, end = listing.items[plan.start], listing.items[plan.end]
    if name == "numbers" and rng.random() < 0.5:
        start, end = _spell(rng, plan.start), _spell(rng, plan.end)
    if name == "letters":
        shape = rng.choice(("{}", "{}", "{}", '"{}"', "the letter {}", "upper"))
        start, end = (x.upper() if shape == "upper" else shape.format(x) for x in (start, end))
    return {
        "n": _spell(rng, plan.n), "nth": ordinal(plan.n, rng.random() < 0.6) if 1 <= plan.n <= 29 else "",
        "s": start, "e": end, "noun": listing.noun, "nouns": listing.noun + "s",
        "name": listing.name,
    }  # fmt: skip


def _sentence(rng: random.Random, opener: str, core: str) -> str:
    """Opener and core joined, with an ending and a capital or not."""
    if opener == "What are" and core.startswith(("all ", "every ")):
        opener = "Say"
    text = f"{opener} {core}" if opener else core
    ending = rng.choice(ENDINGS)
    if opener.startswith(QUESTION_OPENERS) and rng.random() < 0.7:
        ending = "?"
    text += ending
    shape = rng.random()
    if shape < 0.12:
        return text.lower()
    if shape < 0.25:
        return text[0].lower() + text[1:]
    return text[0].upper() + text[1:]


_FORMS_OF = {name: [form for form in FORMS if name in form.listings] for name in LISTINGS}
_WEIGHTS_OF = {name: [form.weight for form in forms] for name, forms in _FORMS_OF.items()}


def _cores(form: Form, name: str, *, held_out: bool) -> Sequence[str]:
    """The form's wordings for one listing, `{whole}` filled in: where it is empty, two may be the same."""
    whole = LISTINGS[name].whole
    seen = [core.replace("{whole}", whole) for core in form.seen]
    if not held_out:
        return seen
    return [core for core in (c.replace("{whole}", whole) for c in form.held_out) if core not in seen]


def draw_request(rng: random.Random, *, held_out_triple: bool, held_out_phrasing: bool) -> Request:
    """A random request with its triple and its phrasing from the part of each split that is asked for."""
    while True:
        name = rng.choices(list(LISTING_WEIGHTS), list(LISTING_WEIGHTS.values()))[0]
        form = rng.choices(_FORMS_OF[name], _WEIGHTS_OF[name])[0]
        plan = form.draw(rng, name)
        if is_held_out(plan.triple) == held_out_triple:
            break
    core_held_out = held_out_phrasing and rng.random() < 0.5
    opener_held_out = held_out_phrasing and not core_held_out
    openers = (CLAUSE_OPENERS, HELD_OUT_CLAUSE_OPENERS) if form.clause else (OPENERS, HELD_OUT_OPENERS)
    opener = rng.choice(openers[opener_held_out])
    core = rng.choice(_cores(form, name, held_out=core_held_out)).format(**_slots(rng, name, plan))
    if opener == "What are" and plan.triple.count == 1:
        opener = "What is"
    return Request(_sentence(rng, opener, core), answer_to(plan.triple))


def draw_training_request(rng: random.Random) -> Request:
    """A request training may see: sometimes off topic, sometimes with words in it that mean nothing."""
    shape = rng.random()
    if shape < 0.06:
        return Request(_off_topic_text(rng), REFUSAL)
    request = draw_request(rng, held_out_triple=False, held_out_phrasing=False)
    if shape < 0.12:
        # an opener the model has never seen must not change the answer
        noise = " ".join(_any_word(rng) for _ in range(rng.randint(1, 3)))
        text = request.text[0].lower() + request.text[1:]
        return Request(noise + rng.choice((" ", ", ")) + text, request.answer)
    if shape < 0.2:
        # nor must an unknown word in the middle
        words = request.text.split()
        words.insert(rng.randint(1, len(words)), _any_word(rng))
        return Request(" ".join(words), request.answer)
    return request


# --- everything else a person may type --------------------------------------------------------------------

REFUSAL = "I can only list letters, numbers, days and months."

_WORDS = (
    "capital", "country", "weather", "city", "river", "story", "poem", "joke", "song", "book", "word",
    "name", "color", "animal", "planet", "star", "question", "answer", "house", "friend", "family", "food",
    "water", "music", "movie", "game", "language", "computer", "program", "code", "python", "engine",
    "model", "cache", "token", "memory", "world", "king", "president", "teacher", "school", "doctor", "car",
    "train", "tree", "flower", "dog", "cat", "bird", "fish", "sun", "moon", "sea", "time", "money", "work",
    "life", "love", "France", "Germany", "London", "Paris", "England", "China", "America", "English",
    "French",
)  # fmt: skip
# What sounds like a list it knows and is none.
_OTHER_LISTS = (
    "prime numbers", "even numbers", "odd numbers", "square numbers", "Roman numbers", "Greek letters", "vowels",
    "consonants", "weekdays", "holidays", "years", "seasons", "planets", "colors", "words", "names",
)  # fmt: skip
_CHAT = (
    "hello", "hi", "hey", "hello there", "hi there", "good morning", "how are you", "how are you today",
    "who are you", "what are you", "what is your name", "what can you do", "can you help me", "help",
    "help me", "thanks", "thank you", "thank you very much", "bye", "goodbye", "ok", "yes", "no", "why",
    "test", "what", "tell me a joke", "tell me a story", "tell me about yourself", "are you a robot",
    "do you like music", "what time is it", "what day is it today", "how old are you", "where are you from",
    "what is this", "what is the capital of France", "write a poem", "say something", "sing a song",
    "I love you",
)  # fmt: skip
_OFF_TOPIC = (
    "What is the {} of {}", "What is a {}", "What is {}", "Why is the {} so {}", "Who is the {} of {}",
    "Where is {}", "When was the {} made", "How do I {} a {}", "How many {}s are there", "Do you know {}",
    "Tell me about {}", "Tell me a {}", "Write a {} about a {}", "Write a {} for my {}", "Explain {} to me",
    "Translate {} to {}", "List the {}s", "List five {}s", "Name three {}s of {}", "Give me a {}",
    "List all the {}s in {}", "Name the first two {}s", "I like {}", "{}", "{} {}", "{} {} {}",
    "Is {} a {}", "Can you {} the {}", "My {} is {}", "Please {} the {} of the {}",
    "What is the best {} in {}",
)  # fmt: skip


# Made-up words that would mean something.
_MEANT = {"may", "day", "ten", "to", "first", "last", "two", "down", "back"}


def _made_up_word(rng: random.Random) -> str:
    def syllable() -> str:
        end = rng.choice(("", "", "n", "r", "st", "y", "ck", "ll", "ng", "t", "w", "th", "ly", "d"))
        return rng.choice("bcdfghklmnprstvwyz") + rng.choice("aeiou") + end

    word = "".join(syllable() for _ in range(rng.randint(1, 3)))
    return "word" if word in _MEANT else word


def _any_word(rng: random.Random) -> str:
    word = rng.choice(_WORDS) if rng.random() < 0.5 else _made_up_word(rng)
    return word.capitalize() if rng.random() < 0.2 else word


def _off_topic_text(rng: random.Random) -> str:
    shape = rng.random()
    if shape < 0.2:
        which = rng.choice(("", "the ", "all ", "the first {} ", "{} ", "the last {} "))
        which = which.format(_spell(rng, rng.randint(2, 12)))
        text = f"{rng.choice(OPENERS)} {which}{rng.choice(_OTHER_LISTS)}".strip()
    else:
        pattern = rng.choice(_CHAT if shape < 0.5 else _OFF_TOPIC)
        text = pattern.format(*(_any_word(rng) for _ in range(pattern.count("{}"))))
    text += rng.choice(("", "", ".", "?", "?", "!"))
    return text[0].upper() + text[1:] if rng.random() < 0.6 else text.lower()


def draw_training_conversation(rng: random.Random) -> tuple[list[dict[str, str]], str]:
    """Messages and the answer to the last of them: mostly one request, sometimes more of a chat than that."""
    messages = []
    if rng.random() < 0.05:
        system = rng.choice(("You are a helpful assistant.", "You are a {}.", "{} {} {}.", "Be {}.", ""))
        content = system.format(*(_any_word(rng) for _ in range(system.count("{}"))))
        messages.append({"role": "system", "content": content})
    if rng.random() < 0.06:
        earlier = draw_training_request(rng)
        messages.append({"role": "user", "content": earlier.text})
        messages.append({"role": "assistant", "content": earlier.answer})
    request = draw_training_request(rng)
    return [*messages, {"role": "user", "content": request.text}], request.answer


# --- the held-out sets ------------------------------------------------------------------------------------


def held_out_sets(count: int = 200) -> dict[str, list[Request]]:
    """What the model is measured on: `count` requests with unseen triples, as many in unseen wordings too."""
    return {
        "held_out_triples": _draw_held_out(count, held_out_phrasing=False, seed=1),
        "held_out_triples_and_phrasings": _draw_held_out(count, held_out_phrasing=True, seed=2),
    }


def _draw_held_out(count: int, *, held_out_phrasing: bool, seed: int) -> list[Request]:
    """Different texts, and no answer more than three times."""
    rng = random.Random(seed)
    different: dict[str, Request] = {}
    answers: Counter[str] = Counter()
    while len(different) < count:
        request = draw_request(rng, held_out_triple=True, held_out_phrasing=held_out_phrasing)
        if request.text not in different and answers[request.answer] < 3:
            answers[request.answer] += 1
            different[request.text] = request
    return list(different.values())
