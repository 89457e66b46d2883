# Every recipe is a step of .ci/run. All but `rust` and `wheel` work in the active Python environment.

DIST ?= dist

.PHONY: check test tools lint types rust wheel bench clean

check: lint types rust test  ## Everything that has to pass, in an environment with the tools.

test:  ## The README's second command.
	pip install '.[test]' && pytest

tools:  ## What the other steps need.
	pip install '.[dev]'

lint:  ## Format and lints; warnings are errors.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	ruff format --check
	ruff check

types:  ## Types of the package and the tests; the stub of the compiled half against the real thing.
	mypy
	python -m mypy.stubtest piper._core

rust:  ## Tests of the core as plain Rust.
	cargo test --workspace --locked

wheel:  ## One wheel for every Python from 3.11 on, into DIST.
	pip wheel --no-deps --wheel-dir $(DIST) .

bench:  ## Speed: never asserted in tests, so run by hand.
	pytest benches --benchmark-only
	cargo bench --package piper-core

clean:
	rm -rf dist target .mypy_cache .pytest_cache .ruff_cache .hypothesis
