.PHONY: run test format

run:
	@deploy/run

test:
	@deploy/test

format:
	@swift format --in-place --recursive Package.swift Sources Tests
