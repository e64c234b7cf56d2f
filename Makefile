# Needs Python 3.11 or newer (with venv) and make; everything else is installed into .venv, and what
# needs Spark into .venv-spark.
#
# Stamp files in both say what has been installed from which requirements file, so that a second
# `make run` installs nothing. All versions are pinned by hash in requirements/*.txt.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV   := .venv
BIN    := $(VENV)/bin
SPARK_VENV := .venv-spark
SPARK_BIN  := $(SPARK_VENV)/bin
# The oldest Spark that is supported has a place of its own, and only its own target uses it.
OLDEST_VENV := .venv-spark-oldest
# `make PYTHON=/path/to/python` picks the interpreter; otherwise python3, then the newest that fits.
PYTHON ?=
PYTHON_CANDIDATES := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)

# Where `make run` listens and keeps its store; ARGS adds any other flag of `headwater serve`.
HOST  ?= 127.0.0.1
PORT  ?= 4222
STORE ?= data
ARGS  ?=
# How many servers `make cluster` starts; their stores and logs are in $(STORE)/cluster.
SERVERS ?= 3

# How many processes pytest uses, which tests it runs, and what it is told besides.
JOBS   ?= 2
TESTS  ?= tests
PYTEST ?= -q

# The same for the tests that need Spark. Each process has a JVM of its own and keeps it.
SPARK_JOBS  ?= 2
SPARK_TESTS ?= tests/spark
# What the oldest Spark is tested with: the source, the sink, and an archive. A table as of its first
# use is what newer ones have: this one plans a read for each use.
OLDEST_TESTS ?= $(addprefix tests/spark/,test_versions.py test_discovery.py test_batch_read.py \
  test_buckets_read.py test_sink.py test_exactly_once.py) \
  --deselect tests/spark/test_batch_read.py::test_a_table_is_as_of_its_first_use
# PySpark 4.0 leaves sockets of its own to the garbage collector.
OLDEST_WARNINGS := -W ignore::pytest.PytestUnraisableExceptionWarning

# What `make sim` runs: a count (`SEEDS=1000`) or one seed to replay (`SEEDS=seed:42`).
SEEDS ?= 1000

# The seeds of the consensus core that `make raft-seeds` runs; `MEMBERS=stored` keeps the logs of the
# members in stores.
COUNT ?= 10000
FIRST ?= 1
MEMBERS ?=

# What `make sweep` runs, in the same form.
SWEEPS ?= 20

# How many rounds of each kind `make test-failover` runs.
ROUNDS ?= 10

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A person's own pip settings may send an install into their home folder.
export PIP_USER := 0
PIP_INSTALL := -m pip install --quiet

# What can be type-checked only where Spark is: as a pattern for the one check to leave out, and as
# paths for the other to look at. The link to a server knows no Spark.
SPARK_PATTERN := ^(src/headwater/(spark/|cli/pipeline)|src/pyspark_|tests/spark/|benchmarks/pipeline)
SPARK_PATHS    = src/headwater/spark src/pyspark_headwater tests/spark \
  $(wildcard src/headwater/cli/pipeline* benchmarks/pipeline*)

.PHONY: help run cluster test test-server test-spark lint types types-spark format bench \
  bench-pipeline hot-keys sim raft-seeds pipeline-demo requirements clean sweep test-outages \
  test-spark-oldest test-replicated test-failover

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.cli ## Start the server on 127.0.0.1:4222, its store in ./data
	@exec $(BIN)/headwater serve -a $(HOST) -p $(PORT) -js -sd $(STORE) $(ARGS)

cluster: $(VENV)/.cli ## Start three servers on this machine, their stores in ./data/cluster
	@exec $(BIN)/headwater cluster run --servers $(SERVERS) --port $(PORT) --store $(STORE)/cluster $(ARGS)

test: ## Run every check and every test
	@$(MAKE) test-server
	@$(MAKE) test-spark

test-server: lint types ## The checks and tests that need no Spark
	$(BIN)/python -m tests.second_chance -n $(JOBS) $(PYTEST) --ignore tests/spark $(TESTS)

test-spark: types-spark ## The checks and tests that need Spark
	$(SPARK_BIN)/python -m tests.second_chance -n $(SPARK_JOBS) --dist loadfile $(PYTEST) \
	  $(SPARK_TESTS)

test-replicated: $(VENV)/.test ## Every JetStream case on three servers beside three nats-servers
	INTEROP_SHARE=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST) \
	  tests/interop/test_replicated.py tests/interop/test_cluster_cases.py

test-failover: $(VENV)/.test ## Kill, pause and cut off servers of clusters under load: ROUNDS=50
	FAILOVER_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest $(PYTEST) \
	  tests/robustness/test_cluster_processes.py

test-outages: $(SPARK_VENV)/.spark ## Half a minute without a server, under queries and jobs
	OUTAGE_S=30 $(SPARK_BIN)/python -m pytest $(PYTEST) tests/spark/test_outages.py

test-spark-oldest: $(OLDEST_VENV)/.spark ## Source, sink and archive with the oldest Spark
	$(OLDEST_VENV)/bin/python -m pytest -n $(SPARK_JOBS) --dist loadfile $(PYTEST) $(OLDEST_WARNINGS) \
	  $(OLDEST_TESTS)

lint: $(VENV)/.test ## Style, formatting and the import contracts
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --quiet --check
	$(BIN)/lint-imports --no-logo

types: $(VENV)/.test ## Type-check sources, tests and benchmarks
	$(BIN)/mypy --exclude '$(SPARK_PATTERN)' --follow-imports silent

types-spark: $(SPARK_VENV)/.spark ## Type-check what needs Spark
	$(SPARK_BIN)/mypy --cache-dir $(SPARK_VENV)/.mypy_cache $(SPARK_PATHS)

format: $(VENV)/.test ## Rewrite files in the project's format
	$(BIN)/ruff check --fix --quiet
	$(BIN)/ruff format --quiet

bench: $(VENV)/.test ## Measure side by side with nats-server
	$(BIN)/python -m benchmarks $(ARGS)

bench-pipeline: $(SPARK_VENV)/.spark ## Measure what goes through Spark
	$(SPARK_BIN)/python -m benchmarks.pipeline $(ARGS)

hot-keys: $(SPARK_VENV)/.spark ## A minute of keys that are put all the time, read by Spark
	$(SPARK_BIN)/python -m tests.spark.hot_keys $(ARGS)

sim: $(VENV)/.test ## Run the simulation over more seeds: SEEDS=5000
	SEEDS=$(SEEDS) $(BIN)/python -m pytest -n $(JOBS) $(PYTEST) tests/simulation

raft-seeds: $(VENV)/.test ## Run the consensus core over many seeds: COUNT=10000 FIRST=1 MEMBERS=stored
	$(BIN)/python -m tests.simulation.raft_seeds $(COUNT) $(FIRST) $(MEMBERS)

sweep: $(SPARK_VENV)/.spark ## Kill, cut anew and roll back under Spark's sink by more seeds: SWEEPS=100
	SEEDS=$(SWEEPS) SWEEP_OUTAGE_S=30 $(SPARK_BIN)/python -m pytest $(PYTEST) \
	  tests/spark/sweep/test_random_sweep.py

pipeline-demo: $(SPARK_VENV)/.spark ## Publish, archive and tabulate with Spark, on this machine
	@exec $(SPARK_BIN)/python -m headwater pipeline demo $(ARGS)

clean: ## Remove .venv* and all that tools have left behind; keeps ./data
	rm -rf $(VENV) $(SPARK_VENV) $(OLDEST_VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --- what has been installed -------------------------------------------------------------------

define FIND_PYTHON
for candidate in $(PYTHON_CANDIDATES); do \
  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
  then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
  echo "Headwater needs Python 3.11 or newer with its venv module. Tried: $(PYTHON_CANDIDATES)." >&2; \
  echo "Install one (on Debian and Ubuntu also its -venv package) or say make PYTHON=<path>." >&2; \
  exit 1; \
fi
endef

$(VENV)/.created $(SPARK_VENV)/.created $(OLDEST_VENV)/.created:
	@$(FIND_PYTHON); \
	echo "Creating $(@D) with $$("$$python" --version)"; \
	"$$python" -m venv --clear $(@D) && touch $@

# --no-deps: a requirements file that has forgotten a dependency must fail here, not fetch it.
$(VENV)/.server $(SPARK_VENV)/.server $(OLDEST_VENV)/.server: %/.server: requirements/build.txt requirements/server.txt \
  pyproject.toml | %/.created
	@echo "Installing what the server needs"
	@$*/bin/python $(PIP_INSTALL) --require-hashes --no-deps \
	  -r requirements/build.txt -r requirements/server.txt
	@$*/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# With the server, so that every command works in a second terminal.
$(VENV)/.cli $(SPARK_VENV)/.cli $(OLDEST_VENV)/.cli: %/.cli: requirements/cli.txt %/.server
	@echo "Installing what the command line needs"
	@$*/bin/python $(PIP_INSTALL) --require-hashes --no-deps -r requirements/cli.txt
	@touch $@

$(VENV)/.test $(SPARK_VENV)/.test $(OLDEST_VENV)/.test: %/.test: requirements/test.txt %/.cli
	@echo "Installing what the tests need"
	@$*/bin/python $(PIP_INSTALL) --require-hashes --no-deps -r requirements/test.txt
	@touch $@

# Spark comes as source. pip builds its wheel once and keeps it in its cache, for the next .venv-spark.
$(SPARK_VENV)/.spark: SPARK_PINS := requirements/spark.txt
$(OLDEST_VENV)/.spark: SPARK_PINS := requirements/spark-oldest.txt
$(SPARK_VENV)/.spark: requirements/spark.txt
$(OLDEST_VENV)/.spark: requirements/spark-oldest.txt
$(SPARK_VENV)/.spark $(OLDEST_VENV)/.spark: %/.spark: requirements/spark-build.txt \
  requirements/spark-test.txt %/.test
	@echo "Installing what Spark needs. The first time this downloads 456 MB, takes some minutes,"
	@echo "and 1.5 GB of space. The server needs none of it: make test-server runs without."
	@$*/bin/python $(PIP_INSTALL) --require-hashes --no-deps -r requirements/spark-build.txt
	@$*/bin/python $(PIP_INSTALL) --require-hashes --no-deps --no-build-isolation -r $(SPARK_PINS)
	@$*/bin/python $(PIP_INSTALL) --require-hashes --no-deps -r requirements/spark-test.txt
	@touch $@

# --- how the pins were made --------------------------------------------------------------------

# Every wheel of every platform gets its hash; no index address is written down.
PIP_COMPILE = cd requirements && CUSTOM_COMPILE_COMMAND="make requirements" \
  ../$(VENV)-lock/bin/pip-compile --quiet --upgrade --no-config --generate-hashes --strip-extras \
  --allow-unsafe --no-emit-options

# Resolved with the oldest Python we support: what it needs and newer ones do not is then pinned too.
requirements: PYTHON_CANDIDATES := python3.11
requirements: ## Renew the pins in requirements/*.txt (needs the network and Python 3.11)
	@$(FIND_PYTHON); "$$python" -m venv $(VENV)-lock
	@$(VENV)-lock/bin/python -m pip install --quiet pip-tools
	@for name in build server cli test spark-build spark spark-oldest spark-test; do \
	  ( $(PIP_COMPILE) --output-file $$name.txt $$name.in ) || exit 1; done
