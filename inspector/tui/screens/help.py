"""The help: the keys as they are bound, and the marks and words of the view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from inspector.tui import keys
from inspector.tui.keymap import keys_file

TEXT = """\
marks
  >   the selected step            [b]  its token in the text
  ✗   breaks a rule, or damaged    !    cache rows disagree
  ✓   a rule holds                 ?    a rule could not be judged
  *   marked with m

search, with /
  hello, 317            text, across tokens too; a token's id
  fail                  breaks a rule
  seq 3   id 317        of a request, of a token
  total > 5ms           gemm attn forward sample margin token len
                        before rows n drafted accepted, any field
  layer 12 > 2ms        GEMM and attention of a layer; also
                        layer 12 attn > 2ms, layer 12 rows < 30
  phase=verify          finish=eos; < <= > >= = !=
  seq 3 total > 5ms "a" all of them; text between quotes

film
  token    the id sampled at the start of the step
  seq_len  the sequence's length before → after the step
  cache    rows in the full layers' KV cache after it
  Δ        how much the sequence grew
  GEMM     ms in matrix products (lm_head included)
  attn     ms in attention; total: ms of the whole step
  ──       a note: shift, rollback, gap, release, message
  margin   top-1 logit less top-2 logit at sampling

head
  LIVE     the trace grows         STALLED  it stopped growing
  ENDED    it grew and is whole    REPLAY   recorded and whole
  CUT OFF  it has no END frame: its writer died
  tok/s    tokens the sequences grew by / time of those steps,
           over the last 32 steps (now) and over all (mean)
  TTFT     from the request to its first sampled token
  TPOT     a token after the first, on average
  queued   steps not judged yet; dropped: lost to damage
"""


class HelpScreen(ModalScreen[None]):
    """A page over the view; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.HELP]

    def __init__(
        self, own_keys: Mapping[str, str], actions: Sequence[Binding] = (*keys.MAIN, *keys.RULES[-1:]), text: str = TEXT
    ) -> None:
        super().__init__()
        self._own_keys, self._actions, self._text = own_keys, list(actions), text

    def compose(self) -> ComposeResult:
        """One scrollable page."""
        with VerticalScroll(id="help") as page:
            page.border_title = "stepscope view"
            page.border_subtitle = "Esc closes"
            yield Static(self._keys() + self._text, markup=False)

    def _keys(self) -> str:
        """The keys as they are bound now."""
        rows = [
            *keys.described(self._actions, self._own_keys),
            ("ctrl+p", "every action, and themes", ""),
        ]
        lines = [f"  {key:<12} {what:<35} {name}".rstrip() for key, what, name in rows]
        return "\n".join(["keys, and their names for other ones in", str(keys_file()), *lines, "", ""])

    def action_close(self) -> None:
        """Back to the view."""
        self.dismiss()
