"""`stepscope report` and `diff --html`: what a reader of the page finds on it, and what a browser makes of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from inspector import cli
from tests.command_line import ROOT, SAMPLE, STEPSCOPE, fails
from tests.inspector.tui.small_traces import damage, letters, run_facts, tokens, write_request, write_step
from tests.programs import need
from tests.traces.known_pairs import known_pair
from traces import record
from traces.writer import TraceWriter

HOSTILE = "</style></title></textarea><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"


class _Tree(HTMLParser):
    """The page as elements; what is never closed in HTML is closed at once."""

    VOID = ("meta", "link", "br", "img", "hr", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self._builder = TreeBuilder()
        self.feed(text)
        self.root = self._builder.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in self.VOID:
            self._builder.end(tag)

    def handle_endtag(self, tag: str) -> None:
        self._builder.end(tag)

    def handle_data(self, data: str) -> None:
        self._builder.data(data)


def parsed(path: Path) -> Element:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>\n")
    return _Tree(text.partition("\n")[2].strip()).root


def page_of(tmp_path: Path, *words: Any, code: int = 0) -> Element:
    """The page that `stepscope report WORDS` writes."""
    out = tmp_path / "page.html"
    assert cli.main(["report", *map(str, words), "-o", str(out)]) == code
    return parsed(out)


def said(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def tables(root: Element) -> dict[str, list[list[str]]]:
    """Each table's cells by its caption, or the head of its first column; the heads first."""
    found = {}
    for table in root.iter("table"):
        caption = table.find("caption")
        rows = [[said(cell) for cell in row if cell.tag in ("th", "td")] for row in table.iter("tr")]
        found[said(caption) if caption is not None else rows[0][0]] = rows
    return found


def captions(root: Element) -> list[str]:
    return [said(caption) for caption in root.iter("figcaption")]


# -- what it tells -----------------------------------------------------------------------------------------------------


def test_a_healthy_run(tmp_path: Path) -> None:
    root = page_of(tmp_path, letters(tmp_path / "a.steps"))
    found = tables(root)
    assert said(next(root.iter("h2"))) == f"pass {tmp_path / 'a.steps'}"
    film = found["step"]
    assert film[0] == ["step", "phase", "token", "text", "seq_before", "seq_len", "cache_len", "ms", "remark"]
    assert film[1] == ["0", "prefill", "-", "-", "0", "25", "25", "10.0", ""]
    assert film[2] == ["1", "decode", "64", "a", "25", "26", "26", "10.0", ""]
    assert film[8] == ["7", "decode", "2", "<eos>", "31", "31", "31", "10.0", "not fed; finish=eos"]
    assert len(film) == 9
    # asked at 2 ms; the first letter's step begins at 14, the sixth's at 64: five gaps of 10
    assert found["Requests"][1] == ["0", "25", "0", "6", "eos", "12.0", "10.0"]
    assert [row[:2] for row in found["layer"][1:]] == [["0", "1.00"], ["1", "2.00"], ["2", "1.00"], ["3", "0.500"]]
    assert len(found["rule"]) == 21
    facts = dict(row for row in found["The run"][1:])
    assert facts["model"] == "letters: 4 layers, 4/2 heads, vocabulary 1000"
    assert (facts["engine"], facts["sampler"], facts["host"]) == ("test-engine 7", "greedy", "riscv64, 3 threads")
    assert "Say the alphabet." in said(next(root.iter("blockquote")))
    assert "all 5 gaps" in captions(root)[2]


def test_every_table_has_heads_and_every_picture_a_name(tmp_path: Path) -> None:
    root = page_of(tmp_path, letters(tmp_path / "a.steps"), SAMPLE)
    for table in root.iter("table"):
        heads = table.findall("thead/tr/th")
        assert heads
        assert all(head.get("scope") == "col" and said(head) for head in heads)
    names = []
    for picture in root.iter("svg"):
        assert picture.get("role") == "img"
        title, desc = picture.find("title"), picture.find("desc")
        assert title is not None
        assert desc is not None
        assert picture.get("aria-label") == f"{said(title)}. {said(desc)}"
        names.append(said(title))
    one = ["Time a step against context length", "Time of each layer by context length", "Inter-token latency"]
    assert names == one * 2
    ids = [element.get("id") for element in root.iter() if element.get("id") and element.tag[:1] == "h"]
    assert len(ids) == len(set(ids))


def test_a_failing_run_names_its_steps(tmp_path: Path) -> None:
    root = page_of(tmp_path, letters(tmp_path / "a.steps", broken=(3,)))
    assert said(next(root.iter("h2"))).startswith("fail ")
    failed = [row for row in root.iter("tr") if row.get("class") == "failed"]
    assert [said(row[0]) for row in failed] == ["3"]
    assert "KV01: seq_len is 28, layer 0 holds 27 rows" in said(failed[0])
    assert "KV02 step 3 seq 0" in said(root)


def test_the_film_of_a_long_run_is_its_first_its_last_and_its_failing_steps(tmp_path: Path) -> None:
    path = tmp_path / "long.steps"
    with TraceWriter(path, run_facts()) as writer:
        write_request(writer)
        for i in range(99):
            rows = [20] * 4 if i + 1 == 50 else None
            write_step(writer, 5, b"x", before=25 + i, rows=rows)
    film = tables(page_of(tmp_path, path))["step"][1:]
    assert [row[0] for row in film] == [
        *map(str, range(12)), "38 steps not shown", "50", "41 steps not shown", *map(str, range(92, 100)),
    ]  # fmt: skip


def test_the_floor_of_the_header(tmp_path: Path) -> None:
    facts = run_facts() | {"floor": {"bytes_per_token": 5_000_000, "kv_bytes_per_row": 100_000, "bandwidth_gb_s": 1.0}}
    with TraceWriter(tmp_path / "a.steps", facts) as writer:
        write_request(writer)
        for i in range(3):
            write_step(writer, 5, b"x", before=25 + i)
    root = page_of(tmp_path, tmp_path / "a.steps")
    # 5 MB and 0.1 MB a row at 1 GB/s
    rows = tables(root)["Medians by context length"]
    assert [row[-1] for row in rows] == ["floor ms", "7.60", "7.70", "7.80"]
    assert "Floor: 7.60 ms to 7.80 ms." in (next(root.iter("svg")).get("aria-label") or "")
    tiles = {said(name): said(value) for name, value in (list(tile) for tile in root.iterfind(".//dl/div"))}
    assert tiles["floor's share of a decode step"] == "77%"  # of steps of 10 ms
    assert "no floor" not in captions(root)[0]
    assert "no floor" in captions(page_of(tmp_path, SAMPLE))[0]


def test_what_is_wrong_with_the_file_is_said(tmp_path: Path) -> None:
    path = letters(tmp_path / "a.steps", end=False)
    damage(path, 2)
    root = page_of(tmp_path, path)
    problems = [said(p) for p in root.iter("p") if p.get("class") == "problem"]
    assert problems[0].startswith("cut off: no END frame after step 7")
    assert problems[1].startswith("damaged: bytes ")
    assert "this step's frame fails its checksum" in said(root)


def test_times_that_mean_nothing_are_not_drawn(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.steps", run_facts() | {"clock": "debugger"}) as writer:
        write_request(writer)
        write_step(writer, 5, b"x", before=25)
    root = page_of(tmp_path, tmp_path / "a.steps")
    assert not list(root.iter("svg"))
    assert "times were seen under a debugger" in said(root)


def test_a_trace_without_steps_and_one_of_totals_alone(tmp_path: Path) -> None:
    with record(tmp_path / "none.steps", n_layers=1) as trace:
        trace.note("totals", seq_id=0, prompt_tokens=9, n_reused=0, fed=9, generated=4, prefill_ms=3.0, decode_ms=6.0)
    root = page_of(tmp_path, tmp_path / "none.steps")
    assert "The trace has no steps." in said(root)
    assert tables(root)["Requests"][1] == ["0", "9", "0", "4", "none", "-", "2.00"]


def test_a_large_trace_has_a_small_page_that_says_what_was_sampled(tmp_path: Path) -> None:
    path = tmp_path / "large.steps"
    steps = 24_000
    with record(path, n_layers=2, flush="interval") as trace:
        for i in range(steps):
            trace.step(token_id=1, n_tokens=1, seq_before=i, seq_len=i + 1, cache_len=[i + 1] * 2, t_ns=i * 1_000_000,
                       total_ms=1.0, gemm_ms=[0.2, 0.3], attn_ms=[0.1, 0.1])  # fmt: skip
    root = page_of(tmp_path, path)
    drawn = re.search(r"a random sample of ([\d,]+) of 24,000 steps", captions(root)[1])
    assert drawn is not None
    # 20,000 wanted: a binomial draw is within 5 standard deviations (5 x 58) of it
    assert abs(int(drawn[1].replace(",", "")) - 20_000) < 290
    assert "medians of 60 stretches" in captions(root)[0]
    assert [row[1] for row in tables(root)["layer"][1:]] == ["0.200", "0.300"]
    assert (tmp_path / "page.html").stat().st_size < 200_000


# -- two sides ---------------------------------------------------------------------------------------------------------


def test_two_sides(tmp_path: Path) -> None:
    base, new = known_pair("ttft_tripled", tmp_path)
    root = page_of(tmp_path, *base, "--against", *new)
    found = tables(root)
    assert [row[0] for row in found["The answers"][1:]] == ["tokens", "state", "layers", "time"]
    times = {row[0]: row for row in found["Times, new against base"][1:]}
    assert (times["TTFT"][-1], times["decode total"][-1]) == ("slower", "faster")
    assert 2.9 < float(times["TTFT"][3]) < 3.1  # the report says 0.13 s and 0.39 s
    picture = next(root.iter("svg")).get("aria-label") or ""
    assert picture.startswith("Times of the new build over those of the base.")
    assert "decode total: " in picture
    sides = [said(h) for h in root.iter("h2")][-2:]
    assert [re.sub(r" \S*/", " ", side) for side in sides] == [
        "pass base: ttft_tripled.base.1.steps", "pass new: ttft_tripled.new.1.steps",
    ]  # fmt: skip


def test_diff_writes_its_section_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new = known_pair("exact_tie", tmp_path)
    words = ["diff", *map(str, base), "--against", *map(str, new)]
    assert cli.main(words) == 1
    screen = capsys.readouterr().out
    assert cli.main([*words, "--html", str(tmp_path / "d.html")]) == 1
    assert capsys.readouterr().out == screen
    root = parsed(tmp_path / "d.html")
    answers = {row[0]: row[1] for row in tables(root)["The answers"][1:]}
    assert answers["tokens"].startswith("differs from output 4 of seq 0: a near tie")
    assert "step 5: 2777, margin 0 over 5" in answers["tokens"]
    assert [said(h) for h in root.iter("h2")] == ["differs Base and new"]


# -- hostile text ------------------------------------------------------------------------------------------------------


def hostile(path: Path) -> Path:
    """A trace that has markup wherever a trace may have text."""
    facts = run_facts() | {
        "model": {"name": HOSTILE, "n_layers": 4},
        "engine": {"name": HOSTILE, "version": HOSTILE},
        "sampler": {"kind": HOSTILE},
        "started_at": HOSTILE,
        "stop": {"eos": [2], "stop_strings": [HOSTILE]},
        "kv": {"dtype": HOSTILE},
        "clock": "monotonic",
    }
    with TraceWriter(path, facts) as writer:
        write_request(writer, HOSTILE + "\u202egnp\x1b[2J")
        writer.note("message", text=HOSTILE)
        write_step(writer, 5, b"<script>", before=25)
        write_step(writer, 6, b"\xe2\x80\xae<b>", before=26, rows=[1] * 4)
        writer.note("text", step=1, text=HOSTILE)
    return path


def test_markup_in_a_trace_is_text_on_the_page(tmp_path: Path) -> None:
    root = page_of(tmp_path, hostile(tmp_path / "<b>x&y.steps"))
    assert {element.tag for element in root.iter()}.isdisjoint({"script", "img", "b", "textarea"})
    prompt = "".join(next(root.iter("blockquote")).itertext())
    assert prompt == HOSTILE + "\\u202egnp\\e[2J"
    assert HOSTILE in [row[3] for row in tables(root)["step"]]
    assert "<b>x&y.steps" in said(next(root.iter("h2")))
    text = (tmp_path / "page.html").read_text()
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_markup_in_two_sides_is_text_too(tmp_path: Path) -> None:
    paths = [hostile(tmp_path / "a.steps"), tokens(tmp_path / "<i>.steps", [b"</td><script>"])]
    root = page_of(tmp_path, paths[0], "--against", paths[1])
    assert {element.tag for element in root.iter()}.isdisjoint({"script", "img", "b", "i", "textarea"})
    assert [HOSTILE[:57] + "…", "letters"] in [row[1:3] for row in tables(root)["What differs in the runs' facts"]]


# -- in a browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need("chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


class Seen:
    """A page in the browser, with whatever it complained of or asked for."""

    def __init__(self, browser: Browser, path: Path, scheme: Any) -> None:
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": 1000, "height": 700}, color_scheme=scheme)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def colour(self, selector: str, name: str) -> str:
        return str(self.page.eval_on_selector(selector, f"e => getComputedStyle(e)['{name}']"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it_and_complains_of_nothing(tmp_path: Path, browser: Browser, scheme: str) -> None:
    page_of(tmp_path, hostile(tmp_path / "a.steps"), letters(tmp_path / "b.steps"))
    seen = Seen(browser, tmp_path / "page.html", scheme)
    for name in ("Time a step against", "Time of each layer", "Inter-token latency"):
        picture = seen.page.get_by_role("img", name=name).last
        box = picture.bounding_box()
        assert box is not None
        assert box["width"] > 500
        assert box["height"] > 150
        assert len(picture.screenshot()) > 5000
    assert seen.page.evaluate("window.broken") is None
    assert seen.asked == [(tmp_path / "page.html").as_uri()]
    assert seen.complaints == []
    # text and pictures are in the page's own colours, the paper is theirs
    ink = "rgb(28, 31, 35)" if scheme == "light" else "rgb(230, 233, 236)"
    assert seen.colour("body", "color") == seen.colour("svg text", "fill") == ink
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_on_paper_it_is_light_and_nothing_is_folded(tmp_path: Path, browser: Browser) -> None:
    page_of(tmp_path, letters(tmp_path / "a.steps"))
    seen = Seen(browser, tmp_path / "page.html", "dark")
    assert not seen.page.get_by_text("rows are accounted for at the end").is_visible()
    seen.page.emulate_media(media="print", color_scheme="dark")
    assert seen.colour("body", "backgroundColor") == "rgb(255, 255, 255)"
    assert seen.page.get_by_text("rows are accounted for at the end").is_visible()
    # paper does not scroll: on a page of A4 nothing may need to
    seen.page.set_viewport_size({"width": 700, "height": 1000})
    scrolls = "[...document.querySelectorAll('.wide')].filter(e => getComputedStyle(e).overflowX != 'visible').length"
    assert seen.page.evaluate(scrolls) == 0
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


# -- words that do not fit ---------------------------------------------------------------------------------------------


def test_files_that_are_no_reports_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("<!doctype html><title>my homepage</title>")
    assert "is not a report of stepscope's" in fails(capsys, "report", SAMPLE, "-o", mine)
    assert "is not a report of stepscope's" in fails(capsys, "report", SAMPLE, "-o", SAMPLE)
    assert "homepage" in mine.read_text()
    page_of(tmp_path, SAMPLE)
    page_of(tmp_path, letters(tmp_path / "a.steps"))  # over the older report


def test_what_cannot_be_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("hello there")
    (tmp_path / "folder").mkdir()
    for words, says in (
        ([tmp_path / "nowhere"], "nowhere: cannot read"),
        ([SAMPLE, tmp_path / "text"], "text: not a step trace"),
        ([tmp_path / "folder"], "--against"),
        ([SAMPLE, "--against", tmp_path / "folder"], "holds no traces"),
        ([SAMPLE, "-o", tmp_path / "no" / "page.html"], "No such file"),
        ([SAMPLE, "-o", tmp_path / "folder"], "Is a directory"),
    ):
        assert says in fails(capsys, "report", *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "text"]


def test_standard_output_of_any_encoding(tmp_path: Path) -> None:
    command = [*STEPSCOPE, "report", str(SAMPLE), "-o", "-"]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env={"PYTHONIOENCODING": "ascii", "PATH": ""})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"&#9251;b" in done.stdout  # ␣b
    assert b"\\u" not in done.stdout


@pytest.mark.parametrize("words", [["report", str(SAMPLE)], ["diff", str(SAMPLE), "--against", str(SAMPLE), "--html"]])
def test_without_matplotlib_the_line_to_type(tmp_path: Path, words: list[str]) -> None:
    hidden = "import sys\nsys.modules['matplotlib'] = None\nfrom inspector import cli\nsys.exit(cli.main(sys.argv[1:]))"
    more = [str(tmp_path / "x.html")] if words[0] == "diff" else ["-o", str(tmp_path / "x.html")]
    done = subprocess.run([sys.executable, "-c", hidden, *words, *more], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "stepscope: a page's plots need matplotlib; type: pip install 'stepscope[report]'\n"
    assert not list(tmp_path.iterdir())
