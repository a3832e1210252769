"""Record `llama_cpp.Llama` of llama-cpp-python: `with stepscope_record(llama, "run.steps"): llama("a prompt")`.

Everything that generates there (calls, completions, chat, streams) goes through Llama.generate, which evaluates and
samples by methods of the same object; those are watched. Lengths come from the object, rows from llama.cpp's own cache.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from traces import fields
from traces.adapters.recording import MOST_DRAFTS, Recording, harmless, host_facts

"""Ids of drafts are recorded up to so many a round."""
_KV_TYPES = {0: "f32", 1: "f16", 30: "bf16"}  # ggml_type
_now = time.perf_counter_ns


@contextmanager
def stepscope_record(llama: Any, path: str | os.PathLike[str], *, flush: str = "interval") -> Iterator[None]:
    """Record what `llama` generates inside the block to `path`, a request a prompt.

    flush: "interval" or "step", see TraceWriter. A prompt is one step, however many batches llama.cpp makes of it.
    Nothing is raised: what goes wrong with the recording is one warning, and the generation goes on.
    """
    recording = Recording(path, flush)
    watch = Watch(recording, llama)
    watch.attach()
    try:
        yield
    finally:
        watch.detach()
        recording.close()


@dataclass
class Verify:
    """A forward of a token and drafts, until it is known which drafts are kept."""

    began_ns: int
    seq_before: int
    drafts: list[int]
    values: dict[str, Any]
    sampled: list[int] = field(default_factory=list)


@dataclass
class Request:
    """One generate: its prompt, and the newest token until it is known whether it is fed."""

    prompt: list[int]
    sampler: dict[str, Any]
    began_ns: int
    seq_id: int = -1
    waiting: dict[str, Any] | None = None
    waiting_since: int = 0
    verify: Verify | None = None
    ran_out: bool = False
    last_id: int | None = None


class Watch:
    """Stands around a Llama object; there is one sequence at a time in it."""

    def __init__(self, recording: Recording, llama: Any) -> None:
        self.recording, self.llama = recording, llama
        self._patched: list[str] = []
        self._request: Request | None = None
        self._completing = False
        self._asked: int | None = None

    @harmless
    def attach(self) -> None:
        """Put the watched methods in the place of the object's own."""
        import llama_cpp

        self._library, llama = llama_cpp, self.llama
        # with layers elsewhere an evaluation returns before it is done
        self._timed = not (llama.model_params.n_gpu_layers and llama_cpp.llama_supports_gpu_offload())
        watched: dict[str, Callable[..., Any]] = {
            "generate": self._generate,
            "eval": self._eval,
            "sample": self._sample,
            "create_completion": self._complete,
        }
        for name, method in watched.items():
            self._patch(name, method, getattr(llama, name))

    def _patch(self, name: str, method: Callable[..., Any], own: Any) -> None:
        setattr(self.llama, name, lambda *args, **named: method(own, *args, **named))
        self._patched.append(name)

    def detach(self) -> None:
        """Leave the object as it was."""
        self._over(None)
        for name in self._patched:
            self.llama.__dict__.pop(name, None)

    def _complete(self, own: Any, *args: Any, **named: Any) -> Any:
        asked = inspect.signature(own).bind(*args, **named)
        asked.apply_defaults()
        if asked.arguments["stream"]:
            return self._streamed(own(*args, **named), asked.arguments["max_tokens"])
        self._completing, self._asked = True, asked.arguments["max_tokens"]
        try:
            answer = own(*args, **named)
            self._over(answer["choices"][0]["finish_reason"])
            return answer
        finally:
            self._completing = False

    def _streamed(self, chunks: Any, max_tokens: int | None) -> Iterator[Any]:
        self._completing, self._asked = True, max_tokens
        try:
            for chunk in chunks:
                reason = chunk["choices"][0].get("finish_reason")
                if reason is not None:
                    self._over(reason)
                yield chunk
        finally:
            self._completing = False
            self._over(None)

    def _generate(self, own: Any, tokens: Sequence[int], *args: Any, **named: Any) -> Generator[int, Any, None]:
        request = self._begin(own, list(tokens), args, named)
        inner = own(tokens, *args, **named)
        received = None
        try:
            while True:
                try:
                    token = inner.send(received)
                except StopIteration:
                    if request is not None:
                        request.ran_out = True
                    return
                received = yield token
        except GeneratorExit:
            raise
        except BaseException as error:
            self._broken("error" if isinstance(error, Exception) else "abort")
            raise
        finally:
            inner.close()
            if request is self._request and not self._completing:
                self._over(None)

    @harmless
    def _begin(self, own: Any, prompt: list[int], args: tuple[Any, ...], named: dict[str, Any]) -> Request:
        self._over(None)
        asked = inspect.signature(own).bind(prompt, *args, **named)
        asked.apply_defaults()
        self._request = Request(prompt, _sampler(asked.arguments), _now())
        return self._request

    def _eval(self, own: Any, tokens: Sequence[int]) -> Any:
        request, fed = self._request, list(tokens)
        self._decided(request)
        before, began = self.llama.n_tokens, _now()
        out = own(tokens)
        if request is not None:
            self._evaluated(request, fed, before, began, _now())
        return out

    def _sample(self, own: Any, *args: Any, **named: Any) -> Any:
        began = _now()
        token = own(*args, **named)
        if self._request is not None:
            self._sampled(self._request, int(token), began, _now())
        return token

    @harmless
    def _decided(self, request: Request | None) -> None:
        """Before the next evaluation the rows of rejected drafts are gone."""
        if request is not None and request.verify is not None:
            self._verified(request.verify, request, self.llama.n_tokens, self._rows())

    @harmless
    def _evaluated(self, request: Request, fed: list[int], before: int, began: int, ended: int) -> None:
        values: dict[str, Any] = {"forward_ms": (ended - began) / 1e6} if self._timed else {}
        if request.seq_id < 0:
            self._open(request, before, bool(fed))
            if fed:
                self._step(request.began_ns, request, "prefill", before, len(fed), self._rows(), ended, **values)
            return
        values |= request.waiting or {}
        request.waiting = None
        drafts = fed[1:] if self.llama.draft_model is not None else []
        if drafts:
            spent = {"total_ms": (ended - request.waiting_since) / 1e6} if self._timed else {}
            request.verify = Verify(request.waiting_since, before, drafts, values | spent)
        else:
            self._step(request.waiting_since, request, "decode", before, len(fed), self._rows(), ended, **values)

    @harmless
    def _sampled(self, request: Request, token: int, began: int, ended: int) -> None:
        text = self.llama.detokenize([token], prev_tokens=None, special=True)
        request.waiting = {"token_id": token, "sample_ms": (ended - began) / 1e6, "text": text}
        request.waiting_since, request.last_id = began, token
        if request.verify is not None:
            request.verify.sampled.append(token)

    def _open(self, request: Request, before: int, evaluated: bool) -> None:
        self.recording.run(self._facts(request.sampler), request.began_ns)
        asked = self._asked if self._completing else None
        request.seq_id = self.recording.request(
            request.began_ns,
            prompt_ids=request.prompt,
            prompt_tokens=len(request.prompt),
            n_reused=before if evaluated else None,
            max_new_tokens=asked if asked is not None and asked > 0 else None,
        )
        if not evaluated:
            text = "the whole prompt was in the cache, and its logits still there: nothing of it was evaluated"
            self.recording.note("message", text=text)

    def _step(
        self,
        began: int,
        request: Request,
        phase: str,
        before: int,
        n_tokens: int,
        rows: int | None,
        ended: int | None = None,
        seq_len: int | None = None,
        **values: Any,
    ) -> None:
        if ended is not None and self._timed:
            values["total_ms"] = (ended - began) / 1e6
        self.recording.step(
            began,
            seq_id=request.seq_id,
            phase=fields.PHASES[phase],
            n_tokens=n_tokens,
            seq_before=before,
            seq_len=before + n_tokens if seq_len is None else seq_len,
            cache_len=rows,
            **values,
        )

    def _verified(
        self, verify: Verify, request: Request, length: int, rows: int | None, finish: int | None = None
    ) -> None:
        """Its drafts are decided: the sequence is `length` long."""
        request.verify = None
        drafts = verify.drafts
        ids = drafts if len(drafts) <= MOST_DRAFTS else None
        n_accepted = length - verify.seq_before - 1
        self._step(
            verify.began_ns,
            request,
            "verify",
            verify.seq_before,
            1 + len(drafts),
            rows=rows,
            seq_len=length,
            **(
                verify.values | {"n_drafted": len(drafts), "n_accepted": n_accepted, "draft_ids": ids, "finish": finish}
            ),
        )

    @harmless
    def _over(self, reason: str | None) -> None:
        """The request ends; `reason` is a completion's finish_reason."""
        request, self._request = self._request, None
        if request is None or request.seq_id < 0:
            return
        finish, last = self._finish(request, reason), request.waiting
        length, rows = self.llama.n_tokens, self._rows()
        if request.verify is not None:
            length, ends_on_draft = self._kept(request.verify)
            if length < self.llama.n_tokens:
                rows = None  # rows of rejected drafts are still there: the next request takes them back
            self._verified(request.verify, request, length, rows, finish if ends_on_draft else None)
            last = None if ends_on_draft else last
        if last is not None:
            values = {**last, "finish": finish, "total_ms": last["sample_ms"]}
            self._step(request.waiting_since, request, "decode", length, 0, rows, **values)

    @staticmethod
    def _kept(verify: Verify) -> tuple[int, bool]:
        """The sequence's length with the drafts that were sampled too, and whether the last sample is one of them."""
        n_kept = 0
        for sampled, draft in zip(verify.sampled, verify.drafts, strict=False):
            if sampled != draft:
                break
            n_kept += 1
        return verify.seq_before + 1 + n_kept, 0 < n_kept == len(verify.sampled)

    def _finish(self, request: Request, reason: str | None) -> int | None:
        if request.last_id is None:
            return None
        vocabulary = self._library.llama_model_get_vocab(self.llama.model)
        if self._library.llama_vocab_is_eog(vocabulary, request.last_id):
            return fields.FINISH["eos"]
        if reason in ("length", "stop"):
            return fields.FINISH[reason]
        return fields.FINISH["stop"] if request.ran_out else None

    @harmless
    def _broken(self, how: str) -> None:
        request, self._request = self._request, None
        if request is not None and request.seq_id >= 0:
            self.recording.note("finish", seq_id=request.seq_id, finish=how)

    def _rows(self) -> int | None:
        """Rows of the one sequence, the same in every layer; None where the oldest left the cache or layers differ."""
        memory = self._library.llama_get_memory(self.llama.ctx)
        if memory is None or not self._all_full():
            return None
        first = self._library.llama_memory_seq_pos_min(memory, 0)
        last = self._library.llama_memory_seq_pos_max(memory, 0)
        return None if first > 0 else int(last) + 1

    def _all_full(self) -> bool:
        model, library = self.llama.model, self._library
        odd = (library.llama_model_is_recurrent, library.llama_model_is_hybrid, library.llama_model_n_swa)
        return not any(of(model) for of in odd)

    def _facts(self, sampler: dict[str, Any]) -> dict[str, Any]:
        llama, library = self.llama, self._library
        n_layers = int(library.llama_model_n_layer(llama.model))
        kv: dict[str, Any] = {"capacity": llama.n_ctx(), "unit": "rows"}
        types = {llama.context_params.type_k, llama.context_params.type_v}
        if len(types) == 1 and (dtype := _KV_TYPES.get(types.pop())):
            kv["dtype"] = dtype
        facts: dict[str, Any] = {
            "engine": {"name": "llama-cpp-python", "version": getattr(sys.modules["llama_cpp"], "__version__", None)},
            "model": {
                "name": os.path.basename(llama.model_path),
                "n_layers": n_layers,
                "n_heads": int(library.llama_model_n_head(llama.model)),
                "n_kv_heads": int(library.llama_model_n_head_kv(llama.model)),
                "vocab_size": llama.n_vocab(),
            },
            "kv": kv,
            "sampler": sampler,
            "loop": "cached" if llama.draft_model is None else "speculative",
            "host": host_facts(llama.n_threads),
        }
        if self._all_full():
            facts["layers"] = [{"kind": "full"}] * n_layers
        if self._completing:
            facts["stop"] = {"eos": [llama.token_eos()]}
        names = [*fields.REQUIRED, "t_ns", "sample_ms", "text"]
        if self._timed:
            names += ["total_ms", "forward_ms"]
        if llama.draft_model is not None:
            facts["draft"] = {"kind": "other", "name": type(llama.draft_model).__name__}
            names += ["n_drafted", "n_accepted", "draft_ids"]
        facts["fields"] = fields.declaration(names, {"draft_ids": MOST_DRAFTS})
        return facts


def _sampler(asked: dict[str, Any]) -> dict[str, Any]:
    penalty = {"repetition_penalty": float(asked["repeat_penalty"])}
    if asked["temp"] == 0 or asked["top_k"] == 1:
        return {"kind": "greedy", **penalty}
    return {
        "kind": "sample",
        "temperature": asked["temp"],
        **{n: asked[n] for n in ("top_k", "top_p", "min_p")},
        **penalty,
    }
