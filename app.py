"""The CDK app: one platform file in, its stacks out."""

import json
import sys
from pathlib import Path

import aws_cdk as cdk

from stacks.extended import synthesize
from trainway.spec.errors import UsageError
from trainway.spec.loader import load_platform

if __name__ == "__main__":
    # The CDK's command line reads cdk.json in the current directory alone. With a wheel that is another folder.
    settings = json.loads(Path(__file__).with_name("cdk.json").read_text(encoding="utf-8"))
    app = cdk.App(context=settings["context"], analytics_reporting=settings["versionReporting"])
    try:
        synthesize(app, load_platform(Path(app.node.try_get_context("platform") or "platform.yaml")))
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
