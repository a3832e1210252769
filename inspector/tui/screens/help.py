"""The help: keys, marks and words of the view."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

TEXT = """\
keys
  ↑ ↓  k j          one step back, on
  PgUp PgDn         one page back, on
  Home  g           the first step
  End  G  f         the newest step; follow a growing trace
  n  N              the next, the previous step that breaks a rule
  space             pause the view of a growing trace
  x                 ask the engine to stop (run --live)
  r                 open the file again
  tab               to the layers and the rules, to scroll them
  ctrl+p            commands and themes
  q                 quit; a running engine is asked to stop

marks
  >   the selected step            [b]  its token in the text
  ✗   breaks a rule, or damaged    !    cache rows disagree
  ✓   a rule holds                 ?    a rule could not be judged

film
  token    the id sampled at the start of the step
  seq_len  the sequence's length before → after the step
  cache    rows in the full layers' KV cache after it
  Δ        how much the sequence grew
  GEMM     ms in matrix products (lm_head included)
  attn     ms in attention; total: ms of the whole step
  margin   top-1 logit less top-2 logit at sampling

head
  LIVE     the trace grows         STALLED  it stopped growing
  ENDED    it grew and is whole    REPLAY   recorded and whole
  CUT OFF  it has no END frame: its writer died
  tok/s    tokens the sequences grew by / time of those steps,
           over the last 32 steps (now) and over all (mean)
  TTFT     from the request to its first sampled token
"""


class HelpScreen(ModalScreen[None]):
    """A page over the view; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "close", "Close", id="help.close"),
    ]

    def compose(self) -> ComposeResult:
        """One scrollable page."""
        with VerticalScroll(id="help") as page:
            page.border_title = "stepscope view"
            page.border_subtitle = "Esc closes"
            yield Static(TEXT, markup=False)

    def action_close(self) -> None:
        """Back to the view."""
        self.dismiss()
