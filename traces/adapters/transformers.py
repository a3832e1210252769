"""Record `generate` of transformers: `with stepscope_record(model, "run.steps"): model.generate(...)`.

The model's forward is watched by hooks; the ids come from where the loop asks its stopping criteria, which it does once
a round, after sampling. A step is complete a round later, when the forward that feeds its token is over.
Neither torch nor transformers is imported here: the user's script has done that.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from traces import fields
from traces.adapters import kv_rows
from traces.adapters.layer_timers import LayerTimers, compiling
from traces.adapters.recording import MOST_DRAFTS, Recording, harmless, host_facts

"""Ids of drafts are recorded up to so many a round."""
_DTYPES = {"torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16", "torch.float64": "f64"}
_now = time.perf_counter_ns


@contextmanager
def stepscope_record(
    model: Any,
    path: str | os.PathLike[str],
    *,
    per_layer: bool = True,
    tokenizer: Any = None,
    flush: str = "interval",
) -> Iterator[None]:
    """Record every `model.generate` inside the block to `path`, one request a sequence.

    model: a decoder-only `PreTrainedModel` of transformers 5. per_layer: each layer's times (on the CPU) and
    fingerprint too. tokenizer: gives the tokens' text. flush: "interval" or "step", see TraceWriter.
    Nothing is raised: what goes wrong with the recording is one warning, and the generation goes on.
    """
    recording = Recording(path, flush)
    watch = Watch(recording, model, per_layer, tokenizer)
    watch.attach()
    try:
        yield
    finally:
        watch.detach()
        recording.close()


@dataclass
class Forward:
    """One forward of the model. Columns are a batch's positions, padding included."""

    began_ns: int
    first_column: int
    n_columns: int
    cache: Any
    mask: Any
    ids: Any
    ended_ns: int = 0
    logits: Any = None
    held: list[kv_rows.Held | None] | None = None
    lm_head_ms: float | None = None
    layers: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Sampled:
    """A token that was picked and may be fed by the next forward."""

    token_id: int
    began_ns: int
    sample_ms: float | None
    finish: str | None
    values: dict[str, Any]


@dataclass
class Sequence:
    """One row of a batch, and the token of it that waits to be fed."""

    seq_id: int
    n_pad: int
    length: int
    last_id: int | None
    waiting: Sampled | None = None
    over: bool = False


class Watch:
    """Stands around a model: its hooks, and the generation that is running."""

    def __init__(self, recording: Recording, model: Any, per_layer: bool, tokenizer: Any) -> None:
        self.recording, self.model, self.tokenizer = recording, model, tokenizer
        self._per_layer = per_layer
        self._handles: list[Any] = []
        self._patched: list[str] = []
        self.timers: LayerTimers | None = None
        self.current: Generation | None = None
        self.head_ns = 0

    @harmless
    def attach(self) -> None:
        """Put the hooks in place."""
        model = self.model
        if model.config.is_encoder_decoder:
            raise TypeError(f"{type(model).__name__} has an encoder; only decoder-only models are recorded")
        self.config = model.config.get_text_config(decoder=True)
        self.n_layers = int(self.config.num_hidden_layers)
        self.timed, self._compiling = model.device.type == "cpu", compiling()
        self._handles += [
            model.register_forward_pre_hook(self._before, with_kwargs=True),
            model.register_forward_hook(self._after),
        ]
        head = model.get_output_embeddings()
        if self.timed and head is not None:
            self._handles += [
                head.register_forward_pre_hook(self._before_head),
                head.register_forward_hook(self._after_head),
            ]
        if self._per_layer:
            self.timers = LayerTimers(model, self.n_layers, self.timed)
        criteria, generate = model._get_stopping_criteria, model.generate
        self._patch(
            "_get_stopping_criteria", lambda *args, **named: self._told_by(criteria(*args, **named), args, named)
        )
        self._patch("generate", lambda *args, **named: self._generate(generate, args, named))

    def detach(self) -> None:
        """Leave the model as it was."""
        for handle in self._handles:
            handle.remove()
        if self.timers is not None:
            self.timers.remove()
        for name in self._patched:
            self.model.__dict__.pop(name, None)

    def _patch(self, name: str, replacement: Any) -> None:
        setattr(self.model, name, replacement)
        self._patched.append(name)

    def _generate(self, generate: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The user's call. A generation inside another (a model that drafts for itself) is part of that one's step."""
        if self.recording.stopped:
            return generate(*args, **named)
        outer = self.current
        if outer is not None:
            if outer.thread != threading.get_ident():
                self.recording.warn("two threads generate with one model at once: one of them is not recorded")
            return self._aside(outer, generate, args, named)
        self.current = Generation(self, args, named)
        try:
            out = generate(*args, **named)
            self.current.end(None)
            return out
        except BaseException as error:
            self.current.end("error" if isinstance(error, Exception) else "abort")
            raise
        finally:
            self.current = None

    def _aside(self, outer: Generation, generate: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if outer.thread != threading.get_ident():
            return generate(*args, **named)
        self.current = None
        try:
            return generate(*args, **named)
        finally:
            self.current = outer

    def _told_by(self, criteria: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The criteria as they are, which also tell this generation what they are asked and what they answer."""
        running = self._running()
        if running is None or self.recording.stopped:
            return criteria
        generation: Generation = running
        settings = named["generation_config"] if "generation_config" in named else args[0]
        generation.settled(settings, criteria)

        class Telling(type(criteria)):  # type: ignore[misc]
            def __call__(self, input_ids: Any, scores: Any, **more: Any) -> Any:
                done = super().__call__(input_ids, scores, **more)
                generation.sampled(input_ids, done)
                return done

        return Telling(criteria)

    def _running(self) -> Generation | None:
        generation = self.current
        if generation is None or generation.skipped or generation.thread != threading.get_ident():
            return None
        return generation

    def _before(self, _module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if not self._compiling():
            self._forward_begins(args, named)

    def _after(self, _module: Any, _args: tuple[Any, ...], output: Any) -> None:
        if not self._compiling():
            self._forward_ended(output, _now())

    def _before_head(self, *_: Any) -> None:
        if not self._compiling():
            self._head_began = _now()

    def _after_head(self, *_: Any) -> None:
        if not self._compiling():
            self.head_ns += _now() - self._head_began

    @harmless
    def _forward_begins(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        generation = self._running()
        if generation is None:
            return
        ids = named.get("input_ids", args[0] if args else None)
        fed = ids if ids is not None else named["inputs_embeds"]
        cache = named.get("cache", named.get("past_key_values"))
        forward = Forward(0, kv_rows.columns_seen(cache), fed.shape[1], cache, named.get("attention_mask"), ids)
        generation.forwards.append(forward)
        self.head_ns = 0
        if self.timers is not None:
            self.timers.reset()
        forward.began_ns = _now()

    @harmless
    def _forward_ended(self, output: Any, ended_ns: int) -> None:
        generation = self._running()
        if generation is None:
            return
        forward = generation.forwards[-1]
        forward.ended_ns, forward.logits = ended_ns, output.logits
        forward.lm_head_ms = self.head_ns / 1e6 if self.head_ns else None
        if self.timers is not None:
            forward.layers = self.timers.values(output.logits.shape[0])
        if not generation.sequences:  # a piece of a prompt: the next one is fed before anything is sampled
            forward.held = kv_rows.held(forward.cache, self.n_layers)


class Generation:
    """One call of generate: its forwards since the last round, and its sequences."""

    def __init__(self, watch: Watch, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.recording, self._watch = watch.recording, watch
        self.thread, self.skipped = threading.get_ident(), False
        self._began_ns = _now()
        inputs: Any = args[0] if args else named.get("inputs", named.get("input_ids"))
        is_ids = getattr(inputs, "ndim", 0) == 2 and not inputs.is_floating_point()
        self._prompt: Any = inputs if is_ids else None
        self._mask = named.get("attention_mask")
        self._assistant = named.get("assistant_model")
        self.forwards: list[Forward] = []
        self.sequences: list[Sequence] = []
        self._width = self._forward_id = self._n_drafts = 0

    @harmless
    def settled(self, settings: Any, criteria: Any) -> None:
        """What generate made of its arguments: its settings, and what it stops at."""
        self._settings = settings
        if (settings.num_beams or 1) > 1:
            self.skip("beam search moves rows between sequences: this generate is not recorded")
        self._eos: list[int] = []
        for criterion in criteria:
            if hasattr(criterion, "eos_token_id"):
                self._eos = criterion.eos_token_id.flatten().tolist()
        self._max_length = criteria.max_length

    def skip(self, why: str) -> None:
        """Leave this call unrecorded."""
        self.skipped = True
        self.recording.warn(why)

    @harmless
    def sampled(self, ids: Any, done: Any) -> None:
        """A round is over: `ids` (sequences, columns) hold the new tokens, `done` says which sequences end."""
        if self.skipped:
            return
        now = _now()
        if not self.forwards:
            self.skip("compiled code is not seen into: of this generate the prompt is recorded (disable_compile=True)")
            self._gap("a forward was not seen: compiled code")
            return
        taken = self._fed(ids) if self.sequences else self._open(ids)
        if self.skipped:
            return
        self._width = ids.shape[1]
        over = done.tolist()
        self._take(ids, taken, over, now)
        if all(over):
            self._not_fed(self.forwards[-1])
        self.forwards.clear()

    def _open(self, ids: Any) -> int:
        """The run, the requests and the prompt's steps; how many tokens the round brought each sequence."""
        first, last = self.forwards[0], self.forwards[-1]
        reused, end = first.first_column, last.first_column + last.n_columns
        given = self._prompt.shape[1] if self._prompt is not None else 0 if first.ids is None else ids.shape[1] - 1
        taken = int(ids.shape[1]) - given
        # with a filled cache the ids may be the whole sequence or only what is new
        prompt = given if given > reused else end if not given else reused + given
        drafts = self._n_drafts = end - prompt
        pads = self._pads(ids.shape[0], last.mask)
        if pads is None or drafts < 0:
            self.skip("how the prompts are padded is not known: pass attention_mask; this generate is not recorded")
            return 0
        self.recording.run(self._facts(last.cache), self._began_ns)
        for row, n_pad in enumerate(pads):
            self.sequences.append(self._request(row, n_pad, prompt, reused, given + reused == prompt and reused > 0))
        self._prefill(prompt, taken, drafts)
        if drafts:
            self.recording.note(
                "message", text=f"the prompt's forward also fed {drafts} drafts; {taken - 1} of them were kept"
            )
            if taken > 1:
                self._kept_with_prompt(ids, taken, drafts)
        return taken

    def _pads(self, n_rows: int, forward_mask: Any) -> list[int] | None:
        """Columns of padding before each sequence; None where that cannot be told."""
        mask = self._mask if self._mask is not None else forward_mask
        if mask is None:
            return [0] * n_rows
        if getattr(mask, "ndim", 0) != 2:
            pad = getattr(self._settings, "_pad_token_tensor", None)
            if self._prompt is None or pad is not None and bool((self._prompt == pad).any()):
                return None
            return [0] * n_rows  # transformers makes out padding by the pad id alone
        zeros: list[int] = (mask == 0).sum(1).tolist()
        return [zeros[row * len(zeros) // n_rows] for row in range(n_rows)]

    def _request(self, row: int, n_pad: int, prompt: int, reused: int, only_new: bool) -> Sequence:
        prompt_ids = None
        if self._prompt is not None and not only_new:
            given = self._prompt[row * len(self._prompt) // self._n_rows].tolist()
            prompt_ids = given[n_pad:]
        seq_id = self.recording.request(
            self._began_ns,
            prompt_ids=prompt_ids,
            prompt_tokens=prompt - n_pad,
            n_reused=max(reused - n_pad, 0),
            max_new_tokens=None if self._max_length is None else max(self._max_length - prompt, 0),
        )
        last_id = prompt_ids[-1] if prompt_ids else None
        return Sequence(seq_id, n_pad, max(reused - n_pad, 0), last_id)

    @property
    def _n_rows(self) -> int:
        return int(self.forwards[-1].logits.shape[0])

    def _prefill(self, prompt: int, taken: int, drafts: int) -> None:
        """A step a piece of the prompt. Columns behind the prompt are drafts, and stand in no prefill step."""
        began = self._began_ns
        for forward in self.forwards:
            last = forward is self.forwards[-1]
            held = kv_rows.held(forward.cache, self._watch.n_layers) if last else forward.held
            end = min(forward.first_column + forward.n_columns, prompt)
            for row, sequence in enumerate(self.sequences):
                n_tokens = max(end - max(forward.first_column, sequence.n_pad), 0)
                if n_tokens:
                    kept = taken - 1 if last and drafts else 0
                    self._write(
                        sequence,
                        *(began, "prefill", n_tokens, sequence.length + n_tokens),
                        kv_rows.own_rows(held, sequence.n_pad, kept),
                        **self._measured(forward, row, began, not (last and drafts)),
                    )
            began = forward.ended_ns
            if not last:
                self._forward_id += 1

    def _kept_with_prompt(self, ids: Any, taken: int, drafts: int) -> None:
        """Drafts that were fed with the prompt and kept: the first one is what the prompt's logits picked, and was
        pending from then on; the others were drafts behind it. One forward: its time is the prefill step's."""
        (sequence,) = self.sequences
        last = self.forwards[-1]
        kept = ids[0, -taken:].tolist()
        rest = last.ids[0, last.n_columns - drafts + 1 :].tolist()
        values: dict[str, Any] = self._picks(0, kept[0], 0) | self._text(sequence, kept[0])
        if rest:
            values |= self._drafted(rest, taken - 2)
        self._write(
            sequence,
            *(last.ended_ns, "verify" if rest else "decode", drafts, sequence.length + taken - 1),
            kv_rows.own_rows(kv_rows.held(last.cache, self._watch.n_layers), sequence.n_pad),
            token_id=kept[0],
            forward_id=self._forward_id,
            **values,
        )
        sequence.last_id = kept[-2]

    def _fed(self, ids: Any) -> int:
        """The waiting tokens were fed: their steps; how many tokens the round brought each sequence."""
        forward = self.forwards[-1]
        taken = int(ids.shape[1]) - self._width
        n_drafts = self._n_drafts = forward.n_columns - 1 if forward.cache is not None else 0
        held = kv_rows.held(forward.cache, self._watch.n_layers)
        self._forward_id += 1
        for row, sequence in enumerate(self.sequences):
            pick, sequence.waiting = sequence.waiting, None
            if pick is None:
                continue
            values = self._measured(forward, row, pick.began_ns, not n_drafts)
            if n_drafts:
                values |= self._drafted(forward.ids[row, 1:].tolist(), taken - 1)
            self._write(
                sequence,
                pick.began_ns,
                "verify" if n_drafts else "decode",
                forward.n_columns - (sequence.n_pad if forward.cache is None else 0),
                sequence.length + (taken if n_drafts else 1),
                kv_rows.own_rows(held, sequence.n_pad),
                **(values | self._of(pick)),
            )
            if n_drafts and taken > 1:
                sequence.last_id = int(ids[row, -2])
            sequence.over = pick.finish is not None
        return taken

    def _take(self, ids: Any, taken: int, over: list[bool], now: int) -> None:
        """Keep each sequence's newest token until it is known whether it is fed."""
        newest = ids[:, -1].tolist()
        forward = self.forwards[-1]
        timed = self._watch.timed
        for row, sequence in enumerate(self.sequences):
            if sequence.over:
                continue
            token = newest[row]
            finish = None
            if over[row]:
                at_end = self._max_length is not None and ids.shape[1] >= self._max_length
                finish = "eos" if token in self._eos else "length" if at_end else "stop"
            values = self._text(sequence, token) | self._picks(row, token, taken - 1)
            began = forward.ended_ns if timed else now
            sequence.waiting = Sampled(token, began, (now - began) / 1e6 if timed else None, finish, values)
            sequence.last_id = token

    def _not_fed(self, forward: Forward) -> None:
        """All sequences end: no forward follows. What they took together counts once."""
        held = kv_rows.held(forward.cache, self._watch.n_layers)
        first = True
        for sequence in self.sequences:
            pick, sequence.waiting = sequence.waiting, None
            if pick is None:
                continue
            values = self._of(pick)
            values["total_ms"] = values["sample_ms"] = pick.sample_ms if first else None
            rows = kv_rows.own_rows(held, sequence.n_pad)
            self._write(sequence, pick.began_ns, "decode", 0, sequence.length, rows, **values)
            sequence.over, first = True, False

    @harmless
    def end(self, reason: str | None) -> None:
        """generate is over: `reason` is None where it returned, else "abort" or "error"."""
        if self.skipped:
            return
        for sequence in self.sequences:
            if sequence.waiting is not None:  # whether it was fed is not known
                self._write(
                    sequence, sequence.waiting.began_ns, "decode", None, None, None, **self._of(sequence.waiting)
                )
            if not sequence.over and reason:
                self.recording.note("finish", seq_id=sequence.seq_id, finish=reason)

    def _gap(self, why: str) -> None:
        for sequence in self.sequences:
            self.recording.note("gap", seq_id=sequence.seq_id, why=why)

    def _write(
        self,
        sequence: Sequence,
        began_ns: int,
        phase: str,
        n_tokens: int | None,
        length: int | None,
        rows: list[int | None] | None,
        **values: Any,
    ) -> None:
        self.recording.step(
            began_ns,
            seq_id=sequence.seq_id,
            phase=fields.PHASES[phase],
            n_tokens=n_tokens,
            seq_before=sequence.length,
            seq_len=length,
            cache_len=rows,
            **values,
        )
        if length is not None:
            sequence.length = length

    def _of(self, pick: Sampled) -> dict[str, Any]:
        finish = None if pick.finish is None else fields.FINISH[pick.finish]
        return {"token_id": pick.token_id, "sample_ms": pick.sample_ms, "finish": finish, **pick.values}

    def _measured(self, forward: Forward, row: int, began_ns: int, at_last_row: bool) -> dict[str, Any]:
        """at_last_row: the forward's last column is the sequence's own last token, which a fingerprint is of."""
        layers = forward.layers[row] if forward.layers else {}
        if not at_last_row:
            layers = {name: value for name, value in layers.items() if name != "hidden_rms"}
        values: dict[str, Any] = {"forward_id": self._forward_id, **layers}
        if self._watch.timed:
            values["forward_ms"] = (forward.ended_ns - forward.began_ns) / 1e6
            values["total_ms"] = (forward.ended_ns - began_ns) / 1e6
            values["lm_head_ms"] = forward.lm_head_ms
        return values

    def _drafted(self, drafts: list[int], n_accepted: int) -> dict[str, Any]:
        ids = drafts if len(drafts) <= MOST_DRAFTS else None
        return {"n_drafted": len(drafts), "n_accepted": n_accepted, "draft_ids": ids}

    def _picks(self, row: int, token: int, place: int) -> dict[str, Any]:
        """What the logits say that a token was sampled from: those behind `place` of the drafts that were fed."""
        logits = self.forwards[-1].logits[row, place - 1 - self._n_drafts]
        (best, second), (first_id, second_id) = (part.tolist() for part in logits.float().topk(2))
        return {
            "logit": best if token == first_id else float(logits[token]),
            "margin": best - second,
            "runner_up": second_id,
        }

    def _text(self, sequence: Sequence, token: int) -> dict[str, Any]:
        """The token's own text behind the one before it; none where it is half a character."""
        tokenizer = self._watch.tokenizer
        if tokenizer is None:
            return {}
        before = [] if sequence.last_id is None else [sequence.last_id]
        head, whole = (tokenizer.decode(ids, clean_up_tokenization_spaces=False) for ids in (before, [*before, token]))
        if not whole.startswith(head) or "\ufffd" in whole:
            return {}
        return {"text": whole[len(head) :]}

    def _facts(self, cache: Any) -> dict[str, Any]:
        watch, config = self._watch, self._watch.config
        n_heads = getattr(config, "num_attention_heads", None)
        head_dim = getattr(config, "head_dim", None)
        if head_dim is None and n_heads:
            head_dim = config.hidden_size // n_heads
        model = {
            "name": getattr(watch.model.config, "_name_or_path", "") or type(watch.model).__name__,
            "n_layers": watch.n_layers,
            "n_heads": n_heads,
            "n_kv_heads": getattr(config, "num_key_value_heads", None) or n_heads,
            "head_dim": head_dim,
            "vocab_size": getattr(config, "vocab_size", None),
            "tokenizer_size": len(watch.tokenizer) if watch.tokenizer is not None else None,
        }
        kv: dict[str, Any] = {"capacity": kv_rows.capacity(cache), "unit": "rows"}
        if type(cache).__name__ in ("DynamicCache", "StaticCache"):
            kv["dtype"] = _DTYPES.get(str(watch.model.dtype))
        facts: dict[str, Any] = {
            "engine": {
                "name": "transformers",
                "version": getattr(sys.modules.get("transformers"), "__version__", None),
            },
            "model": {name: value for name, value in model.items() if value is not None},
            "layers": kv_rows.layer_facts(cache, watch.n_layers),
            "kv": {name: value for name, value in kv.items() if value is not None},
            "sampler": self._sampler(),
            "stop": self._stop(),
            "loop": "naive" if cache is None else "batched" if self._n_rows > 1 else "cached",
            "host": host_facts(_threads() if watch.timed else None),
        }
        drafting = self._drafting()
        if drafting:
            facts |= {"loop": "speculative", "draft": drafting}
        facts["fields"] = self._declaration(bool(drafting))
        return facts

    def _drafting(self) -> dict[str, Any] | None:
        if self._settings.get_generation_mode(self._assistant) != "assisted_generation":
            return None
        if self._assistant is not None:
            name = getattr(self._assistant.config, "_name_or_path", "") or type(self._assistant).__name__
            return {"kind": "model", "name": name}
        if getattr(self._settings, "prompt_lookup_num_tokens", None):
            return {"kind": "ngram", "k": self._settings.prompt_lookup_num_tokens}
        return {"kind": "other"}

    def _sampler(self) -> dict[str, Any]:
        settings = self._settings
        penalty = getattr(settings, "repetition_penalty", None)
        facts = {"repetition_penalty": 1.0 if penalty is None else float(penalty)}
        if not settings.do_sample:
            return {"kind": "greedy", **facts}
        names = ("temperature", "top_k", "top_p", "min_p")
        set_ = {name: getattr(settings, name, None) for name in names}
        return {"kind": "sample", **{name: value for name, value in set_.items() if value is not None}, **facts}

    def _stop(self) -> dict[str, Any]:
        stop: dict[str, Any] = {
            "eos": self._eos,
            "ignore_eos": not self._eos,
            "stop_strings": list(getattr(self._settings, "stop_strings", None) or []),
        }
        if self._settings.max_new_tokens is not None:
            stop["max_new_tokens"] = self._settings.max_new_tokens
        return stop

    def _declaration(self, drafting: bool) -> list[list[Any]]:
        names = [*fields.REQUIRED, "t_ns", "logit", "margin", "runner_up", "forward_id"]
        shapes = {"cache_len": self._watch.n_layers}
        if self._watch.timed:
            names += ["total_ms", "forward_ms", "sample_ms", "lm_head_ms"]
        layered = sorted({name for forward in self.forwards for row in forward.layers for name in row})
        names += layered
        shapes.update(dict.fromkeys(layered, self._watch.n_layers))
        if self._watch.tokenizer is not None:
            names.append("text")
        if drafting:
            names += ["n_drafted", "n_accepted", "draft_ids"]
            shapes["draft_ids"] = MOST_DRAFTS
        return fields.declaration(names, shapes)


def _threads() -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else torch.get_num_threads()
