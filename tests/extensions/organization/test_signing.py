"""The image stage has ECR sign what it pushes, by a rule beside those of others, and says when it cannot."""

import json

import botocore.session
import pytest
from botocore.validate import validate_parameters

from tests.delivery.conftest import push_base

REGISTRY = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
REPOSITORY = "atlas/training"
IMAGE = {"IMAGE_REPOSITORY": f"{REGISTRY}/{REPOSITORY}", "IMAGE_TAG": "c0ffee", "BASE_TAG": "ba5e"}
PROFILE = "arn:aws:signer:us-west-2:111122223333:/signing-profiles/AtlasImage"
OTHER = PROFILE.replace("AtlasImage", "SomebodyElse")
# The rules of the registry are in a file, and the answer on a signature is $SIGNATURE.
SIGNER = r"""
rules=$HOME/rules.json
case "$1 $2" in
  "ecr get-signing-configuration")
    [[ -z "${OLD_CLI:-}" ]] || { echo "argument operation: Invalid choice, valid choices are:" >&2; exit 252; }
    [[ -e "$rules" ]] || { echo "An error occurred (SigningConfigurationNotFoundException)" >&2; exit 254; }
    cat "$rules"; exit ;;
  "ecr batch-delete-image") rm "$ECR/$4/c0ffee"; exit ;;
  "ecr put-signing-configuration") printf '%s' "$4" >"$rules"; exit ;;
  "ecr describe-image-signing-status") printf '%s\n' "${SIGNATURE:-COMPLETE	None}"; exit ;;
esac
"""


@pytest.fixture
def based(aws):
    """ECR with the base, and a registry that signs."""
    aws.stand_in("aws", SIGNER + (aws.root / "bin/aws").read_text().split("RECORD\n")[-1])
    push_base(aws)
    return aws


def rules(workshop) -> list[dict[str, object]]:
    """Return the rules of the registry, which ECR's model has accepted."""
    written = json.loads((workshop.root / "rules.json").read_text())
    model = botocore.session.get_session().get_service_model("ecr").operation_model("PutSigningConfiguration")
    assert model.input_shape
    validate_parameters({"signingConfiguration": written}, model.input_shape)
    return list(written["rules"])


def rule(profile: str, name: str = REPOSITORY) -> dict[str, object]:
    return {"signingProfileArn": profile, "repositoryFilters": [{"filter": name, "filterType": "WILDCARD_MATCH"}]}


def test_the_rule_is_there_before_the_push_and_the_stage_waits_for_the_signature(based):
    done = based.run("image.sh", **IMAGE, SIGNING_PROFILE=PROFILE)
    assert done.returncode == 0, done.stderr
    assert rules(based) == [rule(PROFILE)]
    words = [" ".join(call[:3]) for call in based.calls]
    order = [words.index(each) for each in ("aws ecr put-signing-configuration", "docker buildx build")]
    assert order == sorted(order)
    assert "is signed" in done.stdout
    again = based.run("image.sh", **IMAGE, SIGNING_PROFILE=PROFILE)
    assert again.returncode == 0 and len(based.called("aws", "ecr", "put-signing-configuration")) == 1


def test_rules_of_others_stay_and_a_replaced_profile_takes_the_place_of_the_last_one(based):
    others = [rule(OTHER, "other/*"), {"signingProfileArn": OTHER}]
    (based.root / "rules.json").write_text(json.dumps({"rules": [*others, rule(PROFILE)]}))
    assert based.run("image.sh", **IMAGE, SIGNING_PROFILE=f"{PROFILE}2").returncode == 0
    assert rules(based) == [*others, rule(f"{PROFILE}2")]
    assert based.run("image.sh", **IMAGE, SIGNING_PROFILE="none").returncode == 0
    assert rules(based) == others


def test_without_the_key_nothing_is_asked(based):
    assert based.run("image.sh", **IMAGE).returncode == 0
    assert not [call for call in based.calls if "signing" in " ".join(call)]


def test_a_registry_with_all_rules_that_it_can_have_is_refused_with_a_remedy(based):
    (based.root / "rules.json").write_text(json.dumps({"rules": [rule(OTHER, f"r{n}") for n in range(10)]}))
    done = based.run("image.sh", **IMAGE, SIGNING_PROFILE=PROFILE)
    # A second attempt would find the same.
    assert done.returncode == 78
    assert "the registry has 10 signing rules, and 10 are the most" in done.stderr
    assert not based.pushed


def test_a_signature_that_fails_fails_the_stage_with_the_reason(based):
    done = based.run("image.sh", **IMAGE, SIGNING_PROFILE=PROFILE, SIGNATURE="FAILED\tprofile is canceled")
    assert done.returncode == 1 and "profile is canceled" in done.stderr
    done = based.run("image.sh", **IMAGE, SIGNING_PROFILE=PROFILE, SIGNATURE="IN_PROGRESS\tNone", SIGNING_SECONDS="0")
    assert done.returncode == 1 and "has not signed" in done.stderr
    # Each attempt pushed the image, which the one before had deleted.
    assert len(based.pushed) == len(based.called("aws", "ecr", "batch-delete-image")) == 2


def test_an_image_that_was_there_before_the_rule_is_said_to_have_no_signature(based):
    assert based.run("image.sh", **IMAGE).returncode == 0
    done = based.run("image.sh", **IMAGE, SIGNING_PROFILE=PROFILE, SIGNATURE="None")
    assert done.returncode == 0 and "trainway image rebuild --again" in done.stdout


def test_a_command_line_that_knows_no_signing_is_told_of(based):
    done = based.run("image.sh", **IMAGE, SIGNING_PROFILE=PROFILE, OLD_CLI="yes")
    assert done.returncode == 78 and "does not know ECR's managed signing" in done.stderr
