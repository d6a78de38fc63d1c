"""`python -m tests.seams.cdk_validation DIRECTORY PLATFORM…` prints what the CDK's validation says of the templates.

The CDK's runtime reads the environment variable CDK_VALIDATION when it starts, so this runs in a process of its own.
The output is a JSON object: findings by the platform's name, and those about a template with an error as `planted`.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import aws_cdk as cdk

from stacks.platform import add_stacks
from tests.seams.shapes import platforms
from tests.synthesis import context


def findings(app: cdk.App) -> list[str]:
    """Synthesize an app and return what its validation report says, whatever the severity."""
    # Raises if there are findings and cdk.json makes them errors; the report is there nevertheless.
    with contextlib.suppress(RuntimeError):
        app.synth()
    report = json.loads((Path(app.outdir) / "validation-report.json").read_text(encoding="utf-8"))
    return [
        f"{violation['ruleName']} {violation['description']}"
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
    ]


def main() -> None:
    """Validate the named platforms below the directory of the command line."""
    directory, names = Path(sys.argv[1]), sys.argv[2:]
    found = {}
    for name, platform in ((name, platforms()[name]) for name in names):
        app = cdk.App(outdir=str(directory / name), context=context())
        add_stacks(app, platform)
        found[name] = findings(app)
    broken = cdk.App(outdir=str(directory / "planted"), context=context())
    cdk.CfnResource(cdk.Stack(broken, "planted"), "Topic", type="AWS::SNS::Topic", properties={"TopicNames": "x"})
    print(json.dumps({**found, "planted": findings(broken)}))


if __name__ == "__main__":
    main()
