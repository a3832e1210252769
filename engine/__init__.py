"""The reference engine: decoder models of the Llama, Mistral, Qwen2 and Qwen3 families, in numpy, at float32.

    from engine.loop import StopSettings, run_generation
    from engine.model import DEMO_MODEL, load_model
    from engine.sampling import resolve_sampling
    from engine.tracing import record_generation

    model = load_model(DEMO_MODEL)                                   # or any Hugging Face model directory
    prompt = model.tokenizer.chat_prompt("Hello", system=None)
    ids = model.tokenizer.encode(prompt)
    stops = StopSettings(eos=model.defaults.eos, max_new_tokens=64)
    sampler = resolve_sampling(model.defaults.sampling, temperature=0.0)
    result = record_generation(model, ids, sampler, stops, "run.steps", prompt_text=prompt)
    result = run_generation(model, ids, sampler, stops)              # the same, without a trace

Whatever cannot be used raises `engine.errors.EngineError`, whose message is one line for a person.
"""
