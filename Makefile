# Two commands do everything: `make demo` and `make test`. See README.md.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ONCE ?=
YARN ?=
OURS ?=
STANDALONE ?=
WITHIN ?=
FAULTS ?= 14
BLIND_FAULTS ?= 5
SEED ?= 1
EVENTS ?= 6900000
STATES ?= 1000000
MOVES ?=
SIZES ?=
FREEZES ?=
REQUESTS ?= 100
HISTORIES ?= 12000
SHARE ?=
RESULT ?=
JSON ?=
FENCING ?= broker
BROKERS ?= 1
EXPECT_OVERLAPS ?=
# Where a target leaves its figures: RESULT, or the file that it has below this.
RESULTS := benchmarks/results
NOT_INSTALLED = { echo "Python packages couldn't be installed, see above. Check the network, the proxy (HTTPS_PROXY), the registry (PIP_INDEX_URL; of uv UV_DEFAULT_INDEX) and the room on the disk (2 GB), then run it again: what arrived stays."; exit 4; }
export DAGSTER_DISABLE_TELEMETRY := yes
export SAMZA_DAGSTER_TEST_SHARE := $(SHARE)
# Where it is set, each of a hundred processes would compile Dagster's sources for itself.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test lint format bench bench-response bench-reducer bench-assignment bench-failover bench-downtime bench-cockpit bench-fleet killmatrix killmatrix-further killmatrix-real faults-real test-standalone test-first-job test-yarn test-yarn-page test-yarn-long test-yarn-requests test-yarn-ours cockpit-real absences test-dagster test-dagster-long test-browser test-deploy test-packaging chaos chaos-yarn chaos-blind simulate simulate-standalone test-beside-java test-assignment small-world mutants mutants-standalone release-check docs lock clean
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 21

$(STAMP): requirements/dev.txt requirements/uv.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null || { echo "Python 3.11 to 3.14 is needed, and '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo 'not there'). Install it (Debian: apt-get install python3 python3-venv) or name one: make PYTHON=python3.12 …"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing. Install it (Debian: apt-get install python3-venv)."; exit 2; }
	@echo "Setting up $(VENV) (once) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --require-hashes -r requirements/uv.txt || $(NOT_INSTALLED)
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.txt || $(NOT_INSTALLED)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@$(BIN)/python -m compileall -q samza_dagster
	@touch $@

setup: $(STAMP) ## the virtual environment, from the locked requirements

java: $(STAMP)
	@$(BIN)/python -m samza_dagster.sandbox.java_check

demo: $(STAMP) java ## the main job on the embedded sandbox, stays up until Ctrl-C; ONCE=1 ends by itself; YARN=1 under Samza's own Application Master, with OURS=1 our coordinator on YARN; STANDALONE=1: a standalone processor is killed
	@exec $(BIN)/samza-dagster demo $(if $(ONCE),--once) $(if $(YARN),--yarn) $(if $(OURS),--coordinator ours) $(if $(STANDALONE),--standalone)

test: $(STAMP) java ## lint, types and all levels of tests, each within its budget; WITHIN=seconds for who cuts it off then
	@$(BIN)/python -m tests.levels $(if $(WITHIN),--within $(WITHIN))

lint: $(STAMP) ## ruff, pyright, import-linter; vermin: the agent stays on Python 3.8
	@$(BIN)/python -m tests.levels lint

format: $(STAMP) ## ruff's formatter
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: bench-response bench-reducer ## the next two

bench-response: $(STAMP) java ## request to first response, against Samza's recorded figures
	@$(BIN)/python -m benchmarks.response_latency --json $(or $(RESULT),$(RESULTS)/response_latency.json)

bench-reducer: $(STAMP) ## cost of a step of the reducer
	@$(BIN)/python -m benchmarks.reducer_speed --json $(or $(RESULT),$(RESULTS)/reducer_speed.json)

bench-assignment: $(STAMP) java ## grouping of tasks beside Samza's GroupByContainerIds and Kafka Streams' assignors (10 minutes)
	@$(BIN)/python -m benchmarks.assignment --json $(or $(RESULT),$(RESULTS)/assignment.json)

bench-failover: $(STAMP) java ## an active's death heard of to the start that replaces it
	@$(BIN)/python -m benchmarks.failover_reaction --json $(or $(RESULT),$(RESULTS)/failover_reaction.json)

bench-downtime: $(STAMP) java ## an active's downtime by how it comes back and by its state's size, MOVES of each at SIZES (an hour and a half; goes on where it was ended, plot beside the result)
	@$(BIN)/python -m benchmarks.failover --json $(or $(RESULT),$(RESULTS)/downtime.json) $(if $(MOVES),--moves $(MOVES)) $(if $(SIZES),--sizes $(SIZES)) $(if $(WITHIN),--within $(WITHIN))

bench-cockpit: $(STAMP) java ## an event to the request and the run that it causes in Dagster, over real containers, FREEZES and MOVES of them (12 minutes)
	@$(BIN)/python -m benchmarks.cockpit_reaction $(if $(FREEZES),--events $(FREEZES)) $(if $(MOVES),--moves $(MOVES)) --json $(or $(RESULT),$(RESULTS)/cockpit_reaction.json)

bench-fleet: $(STAMP) java ## one component of 200 jobs: to load beside a bare Dagster, and a tick of each sensor over a real broker (2 minutes)
	@$(BIN)/python -m benchmarks.fleet --json $(or $(RESULT),$(RESULTS)/fleet.json)

.PHONY: bench-lag
bench-lag: $(STAMP) java ## where all standbys of 1,000 jobs are, out of RECORDS metrics records in a real broker, beside a plain Python consumer (250,000: 5 minutes)
	@$(BIN)/python -m benchmarks.lag $(if $(RECORDS),--records $(RECORDS)) --json $(or $(RESULT),$(RESULTS)/lag.json)

.PHONY: bench-yarn-fleet
bench-yarn-fleet: $(STAMP) java ## 500 containers on 50 nodes of a simulated YARN by our coordinator: deployed, 10 nodes drained, and the coordinator's own share (3 minutes)
	@$(BIN)/python -m benchmarks.yarn_fleet --json $(or $(RESULT),$(RESULTS)/yarn_fleet.json)

.PHONY: bench-yarn
bench-yarn: $(STAMP) java ## our coordinator beside Samza's own Application Master on one YARN, in turns (45 minutes)
	@$(BIN)/python -m benchmarks.vs_samza_am --json $(or $(RESULT),$(RESULTS)/vs_samza_am.json)

killmatrix: $(STAMP) java ## the coordinator killed at every point of what it does (22 minutes)
	@$(BIN)/python -m pytest tests/contract -q -m "killmatrix or killpoints"

killmatrix-further: $(STAMP) java ## of the same, what `make test` has no time for, and the slow contracts (18 minutes)
	@$(BIN)/python -m pytest tests/contract -q -m "killmatrix or longcontract" -n 4 --dist worksteal

killmatrix-real: $(STAMP) java ## the same over real Samza containers, of the three main scenarios; SHARE=2/3 for a third of its points (20 minutes)
	@$(BIN)/python -m pytest tests/integration -q -s -m realkillmatrix

faults-real: $(STAMP) java ## faults of real containers that `make test` has no time for
	@$(BIN)/python -m pytest tests/integration -q -s -m realfault

test-first-job: $(STAMP) java ## docs/howto/your-first-job.md as it is written, in each deployment (8 minutes)
	@$(BIN)/python -m pytest tests/integration -q -s -m firstjob

test-beside-java: $(STAMP) java ## two of Samza's Java processors and two of ours in one group, 10 changes of leader (5 minutes)
	@CHANGES=10 $(BIN)/python -m pytest tests/integration/standalone/test_beside_java.py -q -s

test-standalone: $(STAMP) java ## standalone processors on a real ZooKeeper with real containers: each fault, and how long tasks that stay are silent; SHARE=2/4 for a quarter (5 minutes)
	@$(BIN)/python -m pytest tests/integration/standalone -q -s -m standalone --durations=0 --durations-min=1

cockpit-real: $(STAMP) java ## rolling bounces of real containers by a real Dagster, killed part by part; drains and failovers (11 minutes)
	@$(BIN)/python -m pytest tests/integration/cockpit -q -s -m realcockpit

test-yarn: $(STAMP) java ## Samza's own Application Master on a real YARN, and ours there: each of its processes killed; PART="files" for some (11 minutes)
	@$(BIN)/python -m pytest $(or $(PART),tests/integration/yarn tests/integration/yarn_ours tests/e2e) -q -s -m "yarn and not nightyarn" --durations=0 --durations-min=1

test-yarn-ours: $(STAMP) java ## our coordinator on YARN: NodeManagers that recover, a node that is decommissioned, a coordinator away until YARN ends the application (3 minutes)
	@$(BIN)/python -m pytest tests/integration/yarn_ours_absent -q -s -m nightyarn --durations=0 --durations-min=1

test-yarn-page: $(STAMP) java ## docs/howto/from-samza.md and yarn.md as they are written, on a real YARN (9 minutes)
	@$(BIN)/python -m pytest tests/integration/yarn/test_from_samza.py tests/integration/yarn_ours/test_yarn_page.py -q -s -m nightyarn

test-yarn-long: $(STAMP) java ## a rolling bounce there held against the sum of its restarts, twenty faults each told in time, and a shadow's downtimes held against an outsider's; PART="files" for one (25 minutes)
	@$(BIN)/python -m pytest $(or $(PART),tests/integration/yarn/test_yarn_bounce.py tests/integration/yarn/test_yarn_faults.py tests/integration/yarn/test_yarn_shadow.py) -q -s -m nightyarn

test-yarn-requests: $(STAMP) java ## REQUESTS=n of all kinds by SEED, two at a time, an Application Master and a node killed in between (25 minutes)
	@REQUESTS=$(REQUESTS) SEED=$(SEED) $(BIN)/python -m pytest tests/integration/yarn/test_yarn_requests.py -q -s -m nightyarn

absences: $(STAMP) java ## coordinator and broker away for a minute each, in every stage of a move, swap and spin-up, and in failovers; SHARE=2/4 for a quarter (39 minutes)
	@$(BIN)/python -m pytest tests/integration/job/test_absent_servers.py -q -s

chaos: $(STAMP) java ## FAULTS=n faults one after another on real containers, by SEED; judged from outside; BROKERS=3 on three of them; FENCING=lease for the same without the fence (EXPECT_OVERLAPS=1: fails without one)
	@$(BIN)/python -m tests.chaos --faults $(FAULTS) --seed $(SEED) --fencing $(FENCING) --brokers $(BROKERS) $(if $(EXPECT_OVERLAPS),--expect-overlaps) \
	  --json $(or $(RESULT),$(RESULTS)/chaos$(if $(filter-out broker,$(FENCING)),_$(FENCING))$(if $(filter 3,$(BROKERS)),_three_brokers).json)

chaos-yarn: $(STAMP) java ## the same with our coordinator on a real YARN, whose parts are killed, too
	@$(BIN)/python -m tests.chaos --yarn --faults $(FAULTS) --seed $(SEED) --json $(or $(RESULT),$(RESULTS)/chaos_yarn.json)

chaos-blind: $(STAMP) java ## no fence but leases, by SEED: fails when the judge sees no two owners (4 minutes)
	@$(BIN)/python -m tests.chaos --fencing lease --only "freeze host" --lease-ms 12000 --lasting 4 --faults $(BLIND_FAULTS) --seed $(SEED) \
	  --expect-overlaps --json $(or $(RESULT),$(RESULTS)/chaos_blind.json)

test-dagster: $(STAMP) java ## Dagster, for which `make test` has no time: the next three, each though one before it failed (16 minutes)
	@failed=0; for part in test-dagster-long test-deploy test-browser; do \
	  $(MAKE) --no-print-directory $$part || failed=$$?; done; exit $$failed

test-dagster-long: $(STAMP) java ## Dagster: kills at every boundary, and sizes (1 minute)
	@$(BIN)/python -m pytest tests/dagster -q -m longdagster -n 2 --dist worksteal

test-deploy: $(STAMP) ## Dagster's processes killed during runs of each placement job, at every op boundary, on SQLite and beside it on PostgreSQL (Debian's package); SHARE=2/2 for a half (17 minutes)
	@$(BIN)/python -m pytest tests/dagster -q -m deploy -n 2 --dist loadscope --durations=3

test-browser: $(STAMP) java ## Chromium against the real UI over real Samza containers (3 minutes)
	@$(BIN)/python -m pytest tests/browser -q -m browser --durations=5

.PHONY: test-spark-cluster docs-pictures
test-spark-cluster: $(STAMP) java ## snapshots on a Spark cluster, a master and two workers on this machine; of a job that runs, held against its stores' files; on S3 and HDFS; a stream of them that is killed (5 minutes)
	@$(BIN)/python -m pytest tests/spark -q -m cluster

docs-pictures: $(STAMP) java ## the pictures of a run's and an asset's page that README shows, from the browser tests (3 minutes)
	@SAMZA_DAGSTER_PAGES_PICTURES=docs/pictures $(BIN)/python -m pytest tests/browser/test_browser_move.py tests/browser/test_browser_assets.py -q -m browser -k "move or container_locality"

test-packaging: $(STAMP) java ## the wheel in empty environments, with nothing and with each extra, by what the registry has today (2 minutes)
	@$(BIN)/python -m pytest tests/packaging -q -m packaging --durations=5

simulate: $(STAMP) ## 5,000,000 events that change the state (of EVENTS in all), in virtual worlds under every judge
	@mkdir -p $(dir $(or $(RESULT),$(RESULTS)/simulation.json))
	@$(BIN)/python -m tests.simulation --events $(EVENTS) --workers 2 --report $(or $(RESULT),$(RESULTS)/simulation.json)

simulate-standalone: $(STAMP) ## 1,000,000 events (EVENTS) of standalone processors over a ZooKeeper that fails, in virtual time (15 minutes)
	@mkdir -p $(dir $(or $(RESULT),$(RESULTS)/standalone.json))
	@$(BIN)/python -m tests.simulation --standalone --events $(or $(STANDALONE_EVENTS),1000000) --report $(or $(RESULT),$(RESULTS)/standalone.json)

mutants: $(STAMP) ## each planted bug against the simulator alone
	@$(BIN)/python -m tests.mutants --json $(or $(RESULT),$(RESULTS)/mutants.json)

mutants-standalone: $(STAMP) ## the same for standalone processors, against histories of groups (20 minutes)
	@$(BIN)/python -m pytest tests/unit/standalone/test_planted_bugs.py -q -m planted -n 2 --dist worksteal

test-assignment: $(STAMP) ## HISTORIES of a group, each step held against an exact bound (1 minute)
	@HISTORIES=$(HISTORIES) $(BIN)/python -m pytest tests/unit/assignment -q

small-world: $(STAMP) ## a million STATES of two actives, two standbys and three hosts, every order (24 minutes)
	@mkdir -p $(dir $(or $(RESULT),$(RESULTS)/small_world.json))
	@$(BIN)/python -m tests.simulation --small-world --states $(STATES) --trouble "all of it" --report $(or $(RESULT),$(RESULTS)/small_world.json)

release-check: $(STAMP) java ## all of these at the size of a night, each though one before it failed; one table at the end, JSON=file too (two hours, nothing beside it)
	@$(BIN)/python -m tests.suites --all --json $(or $(JSON),$(RESULTS)/release_check.json)

docs: $(STAMP) ## the pages of reference anew from the code, and the site of all pages in build/docs
	@$(BIN)/python -m docs.site.reference
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file docs/site/mkdocs.yml && echo "build/docs/index.html"

lock: ## the locked requirements anew; what is installed has the versions that were tested
	@for extra in dev all base; do \
	  $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --universal --python-version 3.11 --custom-compile-command "make lock" \
	    $$(test $$extra = base || echo --extra $$extra) $$(test $$extra = dev || echo -c requirements/dev.txt) pyproject.toml -o requirements/$$extra.txt; done
	@$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --universal --python-version 3.11 --custom-compile-command "make lock" requirements/uv.in -o requirements/uv.txt

clean: ## the virtual environment; caches and sandboxes stay
	rm -rf $(VENV) build
