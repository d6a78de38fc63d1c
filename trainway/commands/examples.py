"""The example that each command shows at the end of its help. A test parses each of them as the command line does."""

from __future__ import annotations

import typer

EXAMPLES = {
    "init": "trainway init platform.yaml --type p5.48xlarge --count 4",
    "check": "trainway check platform.yaml",
    "rules": "trainway rules --json",
    "schema": "trainway schema job > job.schema.json",
    "instances": "trainway instances --json",
    "plan": "trainway plan platform.yaml",
    "preflight": "trainway preflight platform.yaml",
    "doctor": "trainway doctor platform.yaml",
    "alarms": "trainway alarms platform.yaml > trainway-alarms.yaml",
    "dashboard": "trainway dashboard platform.yaml > trainway-dashboard.json",
    "capacity": "trainway capacity platform.yaml --hours 48",
    "lock": "trainway lock platform.yaml",
    "upgrade": "trainway upgrade platform.yaml --check",
    "diff": "trainway diff platform.yaml",
    "adopt": "trainway adopt vpc-0123456789abcdef0 --subnet nodes-train=subnet-0123456789abcdef0",
    "manifests": "trainway manifests platform.yaml --out manifests",
    "launch": "trainway launch examples/jobs/llama-8b.yaml --target kubernetes",
    "tune": "trainway tune examples/jobs/llama-8b.yaml --instance-type p5.48xlarge",
    "connect": "trainway connect atlas --region us-west-2",
    "status": "trainway status --all",
    "top": "trainway top --once",
    "evaluate": "trainway evaluate llama-8b-1121-100000",
    "logs": "trainway logs llama-8b-1121-100000 --follow --rank 0",
    "stop": "trainway stop llama-8b-1121-100000",
    "resume": "trainway resume llama-8b-1121-100000",
    "shell": "trainway shell llama-8b-1121-100000 --node 1",
    "forward": "trainway forward llama-8b-1121-100000 6006",
    "copy": "trainway copy llama-8b-1121-100000 --to llama-8b",
    "explain": "trainway explain llama-8b-1121-100000",
    "verify": "trainway verify train --nodes 4",
    "sync": "trainway sync my-project",
    "report": "trainway report llama-8b-1121-100000",
    "demo": "trainway demo --processes 2",
    "app": "trainway app",
    "emulator start": "trainway emulator start --port 5000",
    "emulator env": 'eval "$(trainway emulator env)"',
    "emulator stop": "trainway emulator stop",
    "emulator status": "trainway emulator status",
    "runs prune": "trainway runs prune --days 30 --yes",
    "workspace start": "trainway workspace start --accelerators 1 --hours 8",
    "workspace status": "trainway workspace status",
    "workspace connect": "trainway workspace connect --port 8888",
    "workspace end": "trainway workspace end",
    "image build": "trainway image build",
    "image status": "trainway image status --json",
    "image sbom": "trainway image sbom > sbom.spdx.json",
    "image provenance": "trainway image provenance",
    "image log": "trainway image log --follow",
    "image rebuild": "trainway image rebuild",
    "image watch": "trainway image watch",
    "image promote": "trainway image promote training@sha256:0123abcd --from atlas-staging",
    "image restore": "trainway image restore",
    "image lock": "trainway image lock platform.yaml",
    "image additions": "trainway image additions platform.yaml",
    "image doctor": "trainway image doctor Dockerfile",
}


def add_examples(app: typer.Typer, above: tuple[str, ...] = ()) -> None:
    """Add its example to the help of each command of an app. A test finds a command that has none."""
    for command in app.registered_commands:
        name = command.name or (command.callback.__name__.replace("_", "-") if command.callback else "")
        if example := EXAMPLES.get(" ".join((*above, name))):
            command.epilog = f"Example: [cyan]{example}[/cyan]"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            name = group.name or str(group.typer_instance.info.name)
            add_examples(group.typer_instance, (*above, name))
