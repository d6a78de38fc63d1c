"""A platform of each orchestrator on the emulated AWS: written, checked, deployed, and then told nothing by the doctor.

What the emulated AWS cannot have is told as its own.
"""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.test_deploy import cdk
from trainway.cli import app
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.kubernetes.publications import publications
from trainway.spec.sections.orchestrator import Orchestrator

ACCOUNT, REGION = "123456789012", "us-west-2"
ADMIN = f"arn:aws:iam::{ACCOUNT}:role/Admin"
# The emulated AWS has no Kubernetes API, and its caller is nobody. These lines say so.
CALLER = ("permissions", "whether arn:aws:iam::123456789012:user/moto may assume the CDK's roles")
KUBERNETES_API = ("cluster", "the Kubernetes API of atlas does not answer kubectl")


def findings(emulator: Emulator, command: str, file: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Return the warnings and errors of a command by check and subject, except those about local tools."""
    ran = CliRunner().invoke(app, [command, str(file), "--json"], env=emulator.environment())
    assert ran.exit_code in (0, 1), (ran.output, ran.exception)
    told = [each for each in json.loads(ran.stdout)["findings"] if each["level"] != "note"]
    return {(each["check"], each["what"]): each for each in told if each["check"] != "tools"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("orchestrator", Orchestrator)
def test_a_deployed_platform_is_told_nothing_but_what_only_aws_has(orchestrator: Orchestrator, tmp_path: Path) -> None:
    file, admins = tmp_path / "atlas.yaml", ["--admin", ADMIN] if orchestrator.is_kubernetes else []
    asked = ["--name", "atlas", "--type", "g5.8xlarge", "--count", "2", "--region", REGION, "--capacity", "on-demand"]
    ran = CliRunner().invoke(app, ["init", str(file), "--orchestrator", orchestrator, *asked, *admins])
    assert ran.exit_code == 0, ran.output
    with running(region=REGION) as emulator:
        emulator.publish(**publications(load_catalogue(), datetime.now(UTC).date()))
        session = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=REGION)
        trust = {"Version": "2012-10-17", "Statement": []}
        iam = session.client("iam", endpoint_url=emulator.endpoint)
        iam.create_role(RoleName="Admin", AssumeRolePolicyDocument=json.dumps(trust))
        cdk(emulator, "bootstrap", f"aws://{ACCOUNT}/{REGION}", "--output", str(tmp_path / "bootstrap"))
        before = findings(emulator, "preflight", file)
        assert before.keys() == {CALLER, ("budget", f"account {ACCOUNT} has no budget")}
        assert "the emulated AWS" in before[CALLER]["why"]
        options = ["--context", f"platform={file}", "--output", str(tmp_path / "assembly")]
        cdk(emulator, "deploy", "--all", "--require-approval=never", "--concurrency=4", *options)
        told = findings(emulator, "doctor", file)
        # The group that HyperPod makes has the ID of the cluster in its name, so that no template can make it before.
        for fix in (each["fix"] for (check, _), each in told.items() if check == "log-retention"):
            words = shlex.split(fix)
            named = {"logGroupName": words[words.index("--log-group-name") + 1]}
            days = int(words[words.index("--retention-in-days") + 1])
            session.client("logs", endpoint_url=emulator.endpoint).put_retention_policy(**named, retentionInDays=days)
        told = findings(emulator, "doctor", file)
        assert told.keys() == ({KUBERNETES_API} if orchestrator.is_kubernetes else set())
        assert all("The emulated AWS" in each["why"] for each in told.values())
        assert findings(emulator, "preflight", file).keys() == before.keys()
