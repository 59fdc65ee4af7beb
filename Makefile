.PHONY: run test bench fuzz sanitize format docs

run:
	@deploy/run

test:
	@deploy/test

bench:
	@Tests/Benchmarks/run

fuzz:
	@deploy/fuzz $(or $(SECONDS),300) $(TARGETS)

sanitize:
	@deploy/sanitize

format:
	@deploy/format

docs:
	@deploy/install-dependencies
	@deploy/venv
	@.venv/bin/python Tests/Documentation/render
