.PHONY: run test cluster-test postgresql-test trials bench fuzz sanitize format docs manual

run:
	@Tests/Story/run

test:
	@Tests/Tools/test

cluster-test:
	@Tests/Tools/cluster-test

postgresql-test:
	@Tests/Tools/postgresql-test

trials:
	@Tests/Tools/trials

bench:
	@Tests/Benchmarks/run

fuzz:
	@Tests/Tools/fuzz $(or $(SECONDS),300) $(TARGETS)

sanitize:
	@Tests/Tools/sanitize

format:
	@Tests/Tools/format

docs:
	@deploy/install-dependencies
	@Tests/Tools/venv
	@.venv/bin/python Tests/Documentation/render

manual:
	@deploy/install-dependencies --build
	@swift build -c release --static-swift-stdlib --product latchkey --quiet
	@deploy/manual
