# Every target is one line; what it does is a script in ops/dev/ or a program in tests/.
# PROFILE=release builds and installs optimised programs.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: help deps build install up down status reset psql demo test twin torture torture-compactor bench lint
BENCH = .local/venv/bin/python tests/bench/$(if $(filter compact archive,$(WHAT)),$(WHAT).py all,bench.py $(or $(WHAT),all))
export PROFILE COLDFRONT_CACHE MODE DIR

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18
deps: ## fetch PostgreSQL 18, DuckDB, SeaweedFS and the Python packages into .local/
	@ops/dev/deps.sh
build: deps ## build the extension and the programs
	@ops/dev/build.sh
install: build ## put them into .local/pg18
	@ops/dev/install.sh
up: install ## start the local stack and write .local/env
	@ops/dev/stack.sh up
down: ## stop it
	@ops/dev/stack.sh down
status: ## say what runs
	@ops/dev/stack.sh status
reset: ## stop it and delete its data
	@ops/dev/stack.sh reset
psql: ## connect to it
	@ops/dev/stack.sh psql
demo: up ## a real data set in a decoupled table, step by step
	@ops/demo/demo.sh
test: deps ## everything that CI runs
	@ops/dev/test.sh
twin: up ## twin scripts; DIR= another directory, MODE=decoupled|heap
	@ops/dev/twin.sh
torture: install ## kill things while partitions move to Iceberg; ROUNDS= SEED=
	@.local/venv/bin/python tests/torture/torture.py --rounds $(or $(ROUNDS),200) $(if $(SEED),--seed $(SEED))
torture-compactor: install ## kill the compactor while writers work; ROUNDS= SEED= INSERTS=
	@.local/venv/bin/python tests/torture_compactor/torture.py --rounds $(or $(ROUNDS),100) --inserts $(or $(INSERTS),5000) $(if $(SEED),--seed $(SEED))
bench: ## side-by-side ratios against heap, postgres_fdw and a plain server; WHAT=writes|scan|point|compact|archive
	@PROFILE=release $(MAKE) install && $(BENCH)
lint: deps ## formatting and lints
	@ops/dev/lint.sh
