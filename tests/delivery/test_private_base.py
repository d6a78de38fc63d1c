"""A base in a private registry: the build logs in to what it fetches, with what its role may read."""

import base64
import json

import pytest

from tests.delivery.conftest import DOCKER, IMAGE_ARGUMENTS

SECRET = "arn:aws:secretsmanager:us-east-1:111122223333:secret:ngc-AbCdEf"
DIGEST = "sha256:" + 64 * "0"
PASSWORD = "a pass'word$"
# Keeps what each login was given, as Docker does.
LOGINS = r"""
case "$1" in
  login)
    printf '%s %s\n' "$*" "$(cat)" >>"$HOME/logins"
    [[ -z "${REFUSED_LOGIN:-}" || "${!#}" != "$REFUSED_LOGIN" ]] || exit 1 ;;
  logout) echo "$*" >>"$HOME/logins" ;;
esac
"""
SECRETS = r"""
if [[ "$1 $2" == "secretsmanager get-secret-value" ]]; then
  [[ -e "$HOME/secret" ]] || { echo "AccessDeniedException" >&2; exit 254; }
  cat "$HOME/secret"
fi
"""


@pytest.fixture
def private(aws):
    """A builder whose base needs a login, with the secret that has it."""
    path = aws.root / "bin/docker"
    # The recorder of calls reads standard input where a login is given; here the login itself does.
    path.write_text(
        path.read_text().replace('[[ " $* " != *" --password-stdin "* ]] || cat >/dev/null\n', "").replace(DOCKER, "")
        + LOGINS
        + DOCKER
    )
    aws.stand_in("aws", SECRETS + (aws.root / "bin/aws").read_text().split("RECORD\n")[-1])
    (aws.root / "secret").write_text(json.dumps({"username": "$oauthtoken", "password": PASSWORD}))
    return aws


def begins_with(workshop, image: str) -> None:
    (workshop.root / "image.json").write_text(json.dumps(IMAGE_ARGUMENTS | {"BASE_IMAGE": f"{image}@{DIGEST}"}))


def logins(workshop) -> list[str]:
    return (workshop.root / "logins").read_text().splitlines()


def test_a_base_of_another_account_or_of_aws_is_fetched_with_the_builds_role_in_its_own_region(private):
    begins_with(private, "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0-gpu-py312-cu130")
    done = private.run("base.sh", BASE_TAG="ba5e")
    assert done.returncode == 0, done.stderr
    first = logins(private)[0]
    assert first == "login --username AWS --password-stdin 763104351884.dkr.ecr.us-east-1.amazonaws.com token"
    assert ["aws", "ecr", "get-login-password", "--region", "us-east-1"] in private.calls


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("nvcr.io/nvidia/pytorch:26.10-py3", "nvcr.io"),
        ("registry.example.com:5000/team/base:1", "registry.example.com:5000"),
        ("team/base:1", "docker.io"),
        # The combination's own base.
        ("public.ecr.aws/docker/library/ubuntu:24.04", "public.ecr.aws"),
    ],
)
def test_a_base_elsewhere_is_fetched_with_the_login_of_the_secret(private, image: str, registry: str):
    begins_with(private, image)
    done = private.run("base.sh", BASE_TAG="ba5e", BASE_LOGIN_SECRET=SECRET)
    assert done.returncode == 0, done.stderr
    assert logins(private)[0] == f"login --username $oauthtoken --password-stdin {registry} {PASSWORD}"
    # A person's machine, which builds the base of a closed network, does not keep the login.
    assert logins(private)[-1] == f"logout {registry}"
    # The secret is in a Region of its own.
    [read] = private.called("aws", "secretsmanager", "get-secret-value")
    assert read[read.index("--region") + 1] == "us-east-1"


@pytest.mark.parametrize("log_in", ["", "registry.example.com"])
def test_the_password_is_in_no_argument_log_or_file(private, log_in: str):
    begins_with(private, "registry.example.com/base:1")
    done = private.run("base.sh", BASE_TAG="ba5e", BASE_LOGIN_SECRET=SECRET, REFUSED_LOGIN=log_in)
    assert bool(done.returncode) == bool(log_in)
    (private.root / "secret").unlink()
    (private.root / "logins").unlink()
    shown = done.stdout + done.stderr + json.dumps(private.calls)
    files = "".join(
        file.read_text(errors="replace") for file in private.root.rglob("*") if file.is_file() and file.suffix != ".pyc"
    )
    for form in (PASSWORD, base64.b64encode(PASSWORD.encode()).decode()):
        assert form not in shown + files


def test_a_base_that_everybody_can_fetch_needs_no_login(private):
    begins_with(private, "public.ecr.aws/docker/library/ubuntu:24.04")
    done = private.run("base.sh", BASE_TAG="ba5e")
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] + line.split()[-2] for line in logins(private)} == {
        "login111122223333.dkr.ecr.us-west-2.amazonaws.com"
    }


@pytest.mark.parametrize("value", ["not JSON", "{}", '{"username": "a"}', '{"username": "a", "password": ""}', "None"])
def test_a_secret_that_is_no_login_ends_the_stage_for_good(private, value: str):
    begins_with(private, "nvcr.io/nvidia/pytorch:26.10-py3")
    (private.root / "secret").write_text(value)
    done = private.run("base.sh", BASE_TAG="ba5e", BASE_LOGIN_SECRET=SECRET)
    assert done.returncode == 78
    assert f"the value of {SECRET} is not a login" in done.stderr
    assert private.called("docker", "buildx") == []


def test_a_secret_that_cannot_be_read_names_the_key_of_the_file(private):
    begins_with(private, "nvcr.io/nvidia/pytorch:26.10-py3")
    (private.root / "secret").unlink()
    done = private.run("base.sh", BASE_TAG="ba5e", BASE_LOGIN_SECRET=SECRET)
    assert done.returncode == 1
    assert "image.base_login.secret" in done.stderr and "secretsmanager:GetSecretValue" in done.stderr


def test_a_registry_that_refuses_the_login_is_named(private):
    begins_with(private, "nvcr.io/nvidia/pytorch:26.10-py3")
    done = private.run("base.sh", BASE_TAG="ba5e", BASE_LOGIN_SECRET=SECRET, REFUSED_LOGIN="nvcr.io")
    assert done.returncode == 1
    assert f"nvcr.io refuses the login of {SECRET}" in done.stderr


def test_a_base_that_was_built_before_needs_no_login(private):
    begins_with(private, "nvcr.io/nvidia/pytorch:26.10-py3")
    private.run("base.sh", BASE_TAG="ba5e", BASE_LOGIN_SECRET=SECRET)
    (private.root / "secret").unlink()
    done = private.run("base.sh", BASE_TAG="ba5e", BASE_LOGIN_SECRET=SECRET)
    assert done.returncode == 0, done.stderr
