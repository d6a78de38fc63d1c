# `make run` and `make test` need Python 3.11+, git and nothing else; everything else is installed into this folder.

PLATFORM ?= platform.yaml
EXAMPLE ?= examples/eks-p5.yaml
OUT ?= build/synth
# Names of the stacks to deploy or destroy. Default: all stacks of the platform.
STACKS ?= --all
# Number of independent stacks that deploy in parallel.
AT_ONCE ?= 6
# Names of checks of the account that the deploy leaves out, for example "budget quotas". docs/preflight.md lists them.
SKIP_CHECKS ?=
# Names of what the deploy may replace or delete although it has data or running nodes, for example "train storage.lustre".
ALLOW_REPLACE ?=
# Options of `cdk deploy` and `cdk destroy`, for example --require-approval=never or --force in a pipeline.
CDK_OPTIONS ?=

bin := .venv/bin
# A file's tests share what they set up, so a file is never divided among the processors. The largest files start first.
# tests/together.py says how many workers that is.
SPREAD := --numprocesses auto --dist loadfile --no-loadscope-reorder
# Part of the tests that `make test-all` runs: SHARD=1/8 runs one of eight parts of about equal CPU time, and CHANGED=main
# the exhaustive tests of the folders with files that differ from the Git revision `main`. Default: all tests.
SHARD ?=
CHANGED ?=
SOME = $(if $(SHARD),--shard $(SHARD)) $(if $(CHANGED),--changed $(CHANGED))
# The CDK and the jsii runtime below it find their Node beside the Python they run on.
export PATH := $(CURDIR)/$(bin):$(PATH)
export JSII_NODE := $(CURDIR)/$(bin)/node
cdk := node node_modules/aws-cdk/bin/cdk

.PHONY: help setup setup-dev run test test-all lint docs format lock image-lock image-proof image-proof-cpu bench synth golden generated deploy destroy

help: ## List the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: ## Install what `make run` and a deploy need into .venv and node_modules
	@scripts/setup

setup-dev: ## Install also what the tests and checks need, with .checkov
	@scripts/setup --dev

run: setup ## Deploy to an emulated AWS, train on this machine, write the report
	@$(bin)/trainway demo --platform $(PLATFORM)

test: setup-dev ## Run the tests of one case of everything, as continuous integration does for each change
	$(bin)/python -m pytest $(SPREAD) -m 'not exhaustive'

test-all: setup-dev ## Run every test, with more generated examples; SHARD=K/N and CHANGED=REV run some of them
	$(bin)/python -m pytest $(SPREAD) --hypothesis-profile thorough $(SOME)

lint: setup-dev ## Check style, types, imports, shell scripts, the workflow, and the Dockerfile
	@scripts/lint

docs: setup-dev ## Build the site of docs/ into build/site, and check every link, anchor, and page
	@$(bin)/python docs/build.py

format: setup-dev ## Rewrite the code in the project's style
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

lock: setup-dev ## Update the lists of the image's packages and their checksums
	$(bin)/python container/lock.py

image-lock: setup ## Update the lock of the Python packages that PLATFORM adds to its image
	@$(bin)/trainway image lock $(PLATFORM)

image-proof: setup-dev ## Check the image's real CUDA packages, 5 GB of them, without a GPU
	$(bin)/python container/image_proof.py

# PROOF_OPTIONS: for example --base-image or --authorities, where the network has no registry or a proxy that ends TLS.
image-proof-cpu: setup-dev ## Build the image's CPU variant with BuildKit, and train in it without a GPU
	$(bin)/python container/cpu_proof.py $(PROOF_OPTIONS)

bench: setup-dev ## Run the benchmarks that this machine supports, at most 15 minutes, and say which claims hold
	@$(bin)/python -m benchmarks

synth: setup ## Write the templates of the platform file EXAMPLE to OUT
	$(cdk) synth --quiet --context platform=$(EXAMPLE) --output $(OUT)

golden: setup-dev ## Update the examples' golden templates, which are reviewed like code, and checksums
	$(bin)/python -m docs.generators templates picture

generated: setup-dev ## Write all generated files: templates, pictures, reference pages, notices, and weights
	$(bin)/python -m docs.generators

deploy: setup ## Check the AWS account of this shell, show what a deploy of PLATFORM changes, and deploy it
	AT_ONCE=$(AT_ONCE) SKIP_CHECKS="$(SKIP_CHECKS)" ALLOW_REPLACE="$(ALLOW_REPLACE)" scripts/deploy $(STACKS) --context platform=$(PLATFORM) $(CDK_OPTIONS)

destroy: setup ## Show what a destroy of PLATFORM deletes, and destroy it. Its data bucket stays
	scripts/destroy $(STACKS) --context platform=$(PLATFORM) $(CDK_OPTIONS)
