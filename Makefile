# `make run` and `make test` need Python 3.11+, git and nothing else; everything else is installed into this folder.

PLATFORM ?= platform.yaml
EXAMPLE ?= examples/eks-p5.yaml
OUT ?= build/synth
# Some of the platform's stacks by name, instead of all.
STACKS ?= --all
# How many stacks are made at a time, where none stands on another.
AT_ONCE ?= 6
# Passed on to `cdk deploy` and `cdk destroy`, such as --require-approval=never or --force where nobody can be asked.
CDK_OPTIONS ?=

bin := .venv/bin
# A file's tests share what they set up, so a file is never divided among the processors.
SPREAD := --numprocesses logical --dist loadfile
# The CDK and the jsii runtime below it find their Node beside the Python they run on.
export PATH := $(CURDIR)/$(bin):$(PATH)
export JSII_NODE := $(CURDIR)/$(bin)/node
cdk := node node_modules/aws-cdk/bin/cdk

.PHONY: help setup run test test-fast lint format lock image-proof bench synth golden deploy destroy

help: ## Show the verbs
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: ## Install into .venv and node_modules
	@scripts/setup

run: setup ## Deploy to an emulated AWS, train on this machine, write the report
	@$(bin)/trainway demo --platform $(PLATFORM)

test: setup ## Run every test
	$(bin)/python -m pytest $(SPREAD)

test-fast: setup ## Run the tests that take seconds
	$(bin)/python -m pytest $(SPREAD) -m 'not slow'

lint: setup ## Style, types, imports, shell and Dockerfile
	@scripts/lint

format: setup ## Rewrite the code in the project's style
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

lock: setup ## Write the lists of the image's packages again, by their checksums
	$(bin)/python container/lock.py

image-proof: setup ## Check the image's real CUDA packages, 5 GB of them, without a GPU
	$(bin)/python container/image_proof.py

bench: setup ## Run the benchmarks that this machine can, and write their results down
	@for name in overhead read_rate resume checkpoint_stall $(if $(shell command -v nvidia-smi),single_gpu); do \
	  $(bin)/python -m benchmarks.$$name --out benchmarks/results/$$name.json || exit 1; \
	done
	@$(bin)/python -m benchmarks.claims

synth: setup ## Write the templates of EXAMPLE into OUT
	$(cdk) synth --quiet --context platform=$(EXAMPLE) --output $(OUT)

golden: setup ## Rewrite the golden templates of the examples, to be reviewed like code
	$(bin)/python -m tests.golden
	$(bin)/python -m tests.picture

deploy: setup ## Deploy PLATFORM to the AWS account of this shell
	AT_ONCE=$(AT_ONCE) scripts/deploy $(STACKS) --context platform=$(PLATFORM) $(CDK_OPTIONS)

destroy: setup ## Destroy PLATFORM; its data bucket is kept, and found by the next deploy
	$(cdk) destroy $(STACKS) --context platform=$(PLATFORM) $(CDK_OPTIONS)
