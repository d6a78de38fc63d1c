"""What every test runs with: this checkout's Node, and no AWS account within reach."""

from __future__ import annotations

import os
import sys
from pathlib import Path

NODE = Path(sys.executable).with_name("node")
if NODE.exists():
    os.environ["JSII_NODE"] = str(NODE)
# The CDK's validator takes most of a synthesis; the tests that check templates switch it on for themselves.
os.environ["CDK_VALIDATION"] = "false"
for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]
os.environ.update(
    AWS_ACCESS_KEY_ID="test",
    AWS_SECRET_ACCESS_KEY="test",
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE="/nonexistent",
    AWS_SHARED_CREDENTIALS_FILE="/nonexistent",
)
