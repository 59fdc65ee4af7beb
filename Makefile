.PHONY: run test bench format

run:
	@deploy/run

test:
	@deploy/test

bench:
	@Tests/Benchmarks/run

format:
	@swift format --in-place --recursive Package.swift Sources Tests
