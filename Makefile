# IronAuth: `make help` lists the ten that everybody needs, `make help-all` every target. Nothing is needed but make, a shell and Python 3.12 or newer.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.SILENT:
export PYTHON

ENV_FILE := $(or $(IRONAUTH_ENV_FILE),var/env)
# The port that the file of the settings remembers; `make run PORT=…` takes another one once.
USUAL_PORT := $(or $(shell sed -n 's/^IRONAUTH_SERVE_PORT=\([0-9][0-9]*\)$$/\1/p' "$(ENV_FILE)" 2>/dev/null | tail -n 1),8000)
PORT ?= $(USUAL_PORT)
URL ?= http://localhost:$(PORT)
BIN := .venv/bin
AUDIT_BIN := .venv-audit/bin
INSTALL := sh requirements/install.sh
# Secrets of the first run only; later ones find the file and start no Python for it.
SECRETS := test -f "$(ENV_FILE)" || $(BIN)/python -m ironauth.environment_file "$(ENV_FILE)"
# Huge pages for Argon2id (ironauth/server/server.py), set here so that `serve` need not start itself a second time.
SERVE_ENV := GLIBC_TUNABLES=$${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}
ifneq ($(PORT),$(USUAL_PORT))
# The issuer has an origin's one spelling, which leaves http's own port 80 out (config.addresses.issuer).
SERVE_ENV += IRONAUTH_ISSUER=$${IRONAUTH_ISSUER:-http://localhost$(if $(filter-out 80,$(PORT)),:$(PORT))}
endif

.PHONY: help
help: # list what everybody needs
	awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	echo "make help-all      also: the laboratory's programs, generated files, requirements"

.PHONY: help-all
help-all: # list every target
	awk -F ':.*[#][#]? ' '/^[a-z0-9-]+:.*# / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	for one in $(LAB_PROGRAMS) swarm-ui; do printf 'make %-13s a program of the laboratory: make lab says what it does and needs\n' "$$one"; done

.PHONY: run
run: ## serve http://localhost:8000, preparing whatever is missing (PORT=9000, ARGS="--workers 2")
	case "$(PORT)" in 0?*) false ;; esac && test "$(PORT)" -ge 1 2>/dev/null && test "$(PORT)" -le 65535 || { echo "PORT=$(PORT) is no port: choose 1 to 65535" >&2; exit 1; }
	$(INSTALL) base
	echo "Starting IronAuth: loading it, then the database, then workers. A busy machine takes some seconds for each."
	$(SECRETS)
	exec env $(SERVE_ENV) $(BIN)/python manage.py serve --migrate --port $(PORT) $(ARGS)

.PHONY: superuser
superuser: ## make an account that may use the admin
	$(INSTALL) base
	$(SECRETS)
	umask 077 && $(BIN)/python manage.py migrate --verbosity 0 && $(BIN)/python manage.py createsuperuser $(ARGS)

.PHONY: demo
demo: ## walk through the API of a running server and print every request (URL=http://localhost:8000)
	$(INSTALL) base
	$(SECRETS)
	$(BIN)/python manage.py demo --url $(URL) $(ARGS)

.PHONY: test
test: ## run the suite on SQLite and on private Postgres and Redis servers: 11 minutes on 2 cores (ARGS="tokens/keys": a part)
	$(INSTALL) dev
	BIN=$(BIN) sh .ci/test $(ARGS)

.PHONY: test-live
test-live: # run the tests that start servers, browsers and other systems, or take seconds: 12 minutes on 2 cores
	$(INSTALL) dev
	BIN=$(BIN) sh .ci/test --live

# One process, without the servers that some tests start: what only those run counts as not covered.
.PHONY: coverage
coverage: # measure which branches the tests of a folder run, on SQLite (ARGS="tokens"; without: the whole suite)
	$(INSTALL) dev
	umask 077 && mkdir -p var
	$(BIN)/python -m coverage run -m pytest -q $(ARGS); status=$$?; \
		$(BIN)/python -m coverage report --skip-covered --sort=-miss; exit $$status

.PHONY: mutants
mutants: # break the product in each way of ironauth/tests/mutants, and see whether the tests notice (ARGS="refresh": these)
	$(INSTALL) dev
	$(BIN)/python -m ironauth.tests.mutants $(ARGS)

.PHONY: check
check: ## format, lint, import contracts, types, Django's deployment check, migrations, requirements, licences, OpenAPI
	$(INSTALL) dev
	BIN=$(BIN) sh .ci/check

.PHONY: bench
bench: ## measure requests per second and p99 beside a bare ASGI callable, as a table (ARGS="--quick")
	$(INSTALL) dev
	$(BIN)/python -m perf.bench $(ARGS)

.PHONY: lab
lab: ## run experiments and programs of the laboratory (ARGS="flood --quick"); without names: what there is, how long, what it needs
	$(INSTALL) dev
	$(BIN)/python -m perf.lab $(ARGS)

# Programs of the laboratory, which `make lab` lists and runs too: make faults ARGS=--quick is make lab ARGS="faults --quick".
LAB_PROGRAMS := swarm soak limits faults nodes failover previous profile
.PHONY: $(LAB_PROGRAMS) swarm-ui
$(LAB_PROGRAMS):
	$(INSTALL) dev
	$(BIN)/python -m perf.lab $@ $(if $(filter profile,$@),$(or $(ENDPOINT),me)) $(ARGS)

swarm-ui:
	$(INSTALL) dev
	$(BIN)/python -m perf.lab swarm --ui $(ARGS)

.PHONY: argon2-native
argon2-native: # compile Argon2 for this CPU (needs a C compiler): a hash takes about two thirds of the time then
	$(INSTALL) base
	sh requirements/argon2-native.sh

.PHONY: docs
docs: ## build the documentation site, strictly, into var/docs
	$(INSTALL) dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs var/docs

.PHONY: docs-links
docs-links: # ask every other host that the documentation links to; what is broken is in var/docs-links/output.txt
	$(INSTALL) dev
	$(BIN)/python -m sphinx --keep-going -q -b linkcheck docs var/docs-links

.PHONY: release
release: ## build what is published of this version into var/release, and try each of it (ARGS=--debootstrap, --without-image)
	$(INSTALL) dev
	BIN=$(BIN) sh .ci/release $(ARGS)

.PHONY: image
image: # build deploy/Dockerfile with buildah into var/image and try what was built; needs root (ARGS=--debootstrap: no registry)
	$(INSTALL) dev
	BIN=$(BIN) sh .ci/image $(ARGS)

.PHONY: chart
chart: # lint, render and validate the Helm chart by Helm itself, which is compiled once: 5 minutes the first time
	$(INSTALL) dev
	sh .ci/find-helm
	IRONAUTH_TEST_CHART=yes $(BIN)/python -m pytest -q ironauth/tests/deploy/test_helm_chart.py

.PHONY: clients
clients: # sign in with every client library, agent and generated client there is, and write docs/oauth/libraries.md: 6 minutes (ARGS="-k spring": these)
	$(INSTALL) dev
	BIN=$(BIN) sh .ci/clients $(ARGS)

.PHONY: openapi
openapi: # write ironauth/openapi.json anew after a change of the API
	$(INSTALL) dev
	$(SECRETS)
	$(BIN)/python manage.py build_openapi

.PHONY: walks
walks: # walk every journey of people in every look: phone and desktop, light and dark, German and English, with scripts and without: an hour (ARGS="-k deletion")
	$(INSTALL) dev
	sh .ci/find-browser && sh .ci/find-node
	IRONAUTH_TEST_WALKS=all $(BIN)/python -m pytest -q ironauth/tests/browser/journeys $(ARGS)

.PHONY: screenshots
screenshots: # take pictures of every page in every state the browser tests see, into var/screenshots; renew those of the site
	$(INSTALL) dev
	umask 077 && mkdir -p var/screenshots
	IRONAUTH_TEST_SCREENSHOTS=$(CURDIR)/var/screenshots $(BIN)/python -m pytest -q ironauth/tests/browser $(ARGS)
	$(BIN)/python docs/pictures.py var/screenshots

.PHONY: messages
messages: # collect the texts people read into ironauth/locale/ and compile its translations (needs gettext)
	$(INSTALL) dev
	$(SECRETS)
	$(BIN)/python manage.py collect_messages

.PHONY: requirements
requirements: # resolve requirements/*.txt anew from pyproject.toml, keeping present pins (ARGS=--upgrade)
	$(INSTALL) dev
	BIN=$(BIN) sh requirements/compile.sh requirements $(ARGS)

.PHONY: licences
licences: # write deploy/LICENCES.md anew after a change of the runtime requirements
	$(INSTALL) dev
	$(BIN)/python -m requirements.licences

# The last commit's time instead of now: the same commit has the same bill of materials.
.PHONY: sbom
sbom: # write var/sbom.cdx.json: the runtime requirements with hashes and licences, as CycloneDX
	$(INSTALL) audit
	umask 077 && mkdir -p var
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(AUDIT_BIN)/python -m requirements.sbom var/sbom.cdx.json
	echo "var/sbom.cdx.json"

.PHONY: audit
audit: # ask whether requirements/*.txt have known holes (ARGS="--vulnerability-service osv"); without data it fails
	$(INSTALL) audit
	$(AUDIT_BIN)/python -m requirements.audit $(ARGS)

.PHONY: clean
clean: ## remove .venv and caches; var/ (database and keys) stays
	rm -rf .venv .venv-audit .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis staticfiles
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
