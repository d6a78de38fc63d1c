"""The page stands alone, says what happened, and can be read by everybody."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.report.conftest import LAUNCH, RunDirectory
from trainway.cli import app
from trainway.explain import evidence_of_run, explain
from trainway.report import RunUnreadable, write_report
from trainway.report.events import read_events
from trainway.report.history import make_history
from trainway.spec.errors import UsageError

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """The elements of a page with what encloses each of them. Fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None], tuple[str, ...]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), tuple(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), tuple(self.open)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _, _ in self.elements)


# The eight drawings of a page with steps take nearly all of its time, so a test that reads words only has no steps,
# where steps change none of them.
def page_of(run: RunDirectory) -> str:
    return write_report(run.path).read_text(encoding="utf-8")


def run_python(code: str, *arguments: Path) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def words_of(page: str) -> str:
    """The page's text as a reader sees it, without markup and with single spaces."""
    body = re.sub(r"<(style|svg).*?</\1>", " ", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]+>", " ", body))
    return re.sub(r" ([.,;:])", r"\1", " ".join(text.split()))


def test_the_page_is_one_file_that_asks_the_network_for_nothing(full_page: str) -> None:
    outline = Outline(full_page)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & {tag for tag, _, _ in outline.elements}
    for _, attributes, _ in outline.elements:
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert (attributes.get(name) or "#").startswith("#")
    assert "@import" not in full_page
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", full_page))
    assert "default-src 'none'" in full_page


def test_the_same_run_gives_the_same_page_in_another_process(full: RunDirectory, full_page: str) -> None:
    code = "import sys; from pathlib import Path; from trainway.report import write_report;"
    run_python(code + "write_report(Path(sys.argv[1]))", full.path)
    assert (full.path / "report.html").read_text(encoding="utf-8") == full_page


def test_ids_are_unique_and_every_reference_has_its_target(full_page: str) -> None:
    elements = Outline(full_page).elements
    ids = Counter(attributes["id"] for _, attributes, _ in elements if "id" in attributes)
    assert ids
    assert set(ids.values()) == {1}
    references = {attributes["href"] for _, attributes, _ in elements if "href" in attributes}
    references |= set(re.findall(r"url\((#\w+)\)", full_page))
    assert references == {f"#{name}" for name in ids}


def test_every_table_has_a_caption_and_every_chart_a_label_and_a_caption(full_page: str) -> None:
    outline = Outline(full_page)
    assert outline.count("table") == outline.count("caption") > 0
    assert outline.count("figure") == outline.count("figcaption") == 5
    # The three wide charts have a second drawing, for narrow screens.
    assert outline.count("svg") == 8
    charts = [attributes for tag, attributes, _ in outline.elements if tag == "svg"]
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in charts)
    assert all("scope" in attributes for tag, attributes, _ in outline.elements if tag == "th")
    assert outline.count("h1") == 1


def test_every_colour_is_defined_for_light_and_for_dark(full_page: str) -> None:
    light, dark = re.findall(r":root \{([^}]*--page[^}]*)\}", full_page)
    used = set(re.findall(r"var\((--[a-z-]+)\)", full_page))
    for scheme in (light, dark):
        assert used <= set(re.findall(r"(--[a-z-]+):", scheme))
    assert "prefers-color-scheme: dark" in full_page


@pytest.mark.parametrize("field", ["job", "model", "device", "torch"])
def test_what_the_job_says_about_itself_is_escaped(run: RunDirectory, field: str) -> None:
    page = page_of(run.start(**{field: "<script>alert(1)</script>"}))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_documents_are_escaped(run: RunDirectory, launch: dict[str, Any], deployment: dict[str, Any]) -> None:
    deployment["resources"][0]["physical_id"] = "<b>id</b>"
    launch["environment"]["NOTE"] = "<i>note</i>"
    (run.path / "job.yaml").write_text("name: <few>\n")
    page = page_of(run.start().document("deployment.json", deployment).document("launch.json", launch))
    assert "&lt;b&gt;id&lt;/b&gt;" in page
    assert "&lt;i&gt;note&lt;/i&gt;" in page
    assert "&lt;few&gt;" in page


def test_ten_thousand_steps_stay_below_half_a_megabyte(run: RunDirectory) -> None:
    events = run.start(steps=10_000).steps(1, 1).path / "metrics.jsonl"
    start, first = events.read_text().splitlines()
    step = json.loads(first)
    lines = [start]
    for number in range(1, 10_001):
        noise = (number * 7919 % 1000) / 1000  # as rough as a curve can be
        changes: dict[str, object] = {"step": number, "loss": 2 + noise, "grad_norm": 1 + noise, "mfu": noise}
        breakdown = {phase: seconds * (1 + noise) for phase, seconds in step["breakdown"].items()}
        seconds = sum(breakdown.values())
        changes |= {"breakdown": breakdown, "step_seconds": seconds, "tokens_per_second": 4096 / seconds}
        lines.append(json.dumps(step | changes))
    events.write_text("\n".join(lines) + "\n")
    assert write_report(run.path).stat().st_size < 500_000


def test_the_head_of_the_page_says_what_came_of_it(full: RunDirectory, full_page: str) -> None:
    final = json.loads((full.path / "metrics.jsonl").read_text().splitlines()[-1])
    text = words_of(full_page)
    assert "Finished: step 10 of 10." in text
    assert "The loss fell from 7.2950 to 3.7190 over 40,960 tokens" in text
    assert "tiny, 2.36 million parameters" in text
    assert "2 processes" in text
    assert "from the checkpoint of step 4" in text
    assert "MFU not known for this device" in text
    assert f"Final loss, exactly {final['loss_hex']}" in text


def test_mfu_is_shown_where_it_is_known(run: RunDirectory) -> None:
    text = words_of(page_of(run.start(device="cuda").steps(1, 3, mfu=0.417)))
    assert "MFU 41.7% median" in text
    assert "not known for this device" not in text


def test_checkpoints_have_their_location_and_seconds(full_page: str) -> None:
    text = words_of(full_page)
    assert "2 checkpoints written, the last at step 8" in text
    assert "8 s3://corpus/checkpoints/step-00000008 300 ms" in text


def test_attempts_are_told_only_where_there_was_more_than_one(run: RunDirectory, full_page: str) -> None:
    text = words_of(full_page)
    assert "1 0 6 0 2 " in text  # attempt, from step, to step, steps discarded, processes
    assert "2 4 10 2 2 " in text
    assert "Attempts" not in words_of(page_of(run.start()))


def test_the_command_and_its_environment_are_shown_as_they_were_launched(full_page: str) -> None:
    text = words_of(full_page)
    assert "torchrun --nproc-per-node 2 -m training.train --config 'my jobs/tiny.yaml'" in text
    assert 'TRAINWAY_LOCATIONS {"s3": "s3://corpus"}' in text
    assert "2026-11-21 14:09:51 UTC" in text
    assert "(1 min 12 s), exit status 0" in text


def test_what_is_named_like_a_secret_is_not_passed_on(run: RunDirectory, launch: dict[str, Any]) -> None:
    launch["environment"] |= {"AWS_SECRET_ACCESS_KEY": "wJalr", "HF_TOKEN": "hf_abc"}
    page = page_of(run.start().document("launch.json", launch))
    assert "wJalr" not in page
    assert "hf_abc" not in page
    assert "HF_TOKEN (hidden)" in words_of(page)


def test_code_that_changed_is_told_with_the_files_that_differ(run: RunDirectory, launch: dict[str, Any]) -> None:
    before, after, at = "a" * 64, "b" * 64, "2026-11-29T10:00:00+00:00"
    changes = [
        {"at": at, "before": None, "after": before},
        {"at": at, "before": before, "after": after, "files": ["train.py", "<rate>.py"], "more_files": 3},
    ]
    launch["options"] = {"code_digest": after, "code_changes": changes, "processes": 2}
    text = words_of(page_of(run.start().document("launch.json", launch)))
    assert f"Its code is the archive {after}." in text
    when = "At 2026-11-29 10:00:00 UTC the run was resumed with the code of the archive"
    assert f"{when} aaaaaaaaaaaa instead of that of the image. The files that differ are not known." in text
    told = (
        f"{when} bbbbbbbbbbbb instead of that of the archive aaaaaaaaaaaa. Files that differ: train.py, <rate>.py, and"
    )
    assert f"{told} 3 more." in text


def test_a_run_without_its_documents_leaves_their_parts_out(run: RunDirectory) -> None:
    text = words_of(page_of(run.start(resumed_from=10).end(10)))
    assert "the job was not started by trainway launch" in text
    assert "The job file" not in text
    assert "What was deployed" not in text
    assert "emulator" not in text


def test_resources_are_counted_by_stack_and_listed(full_page: str) -> None:
    text = words_of(full_page)
    assert "Platform atlas: 5 resources in 2 stacks, through CloudFormation of an emulated AWS" in text
    assert "atlas-network 3 1 2 atlas-cluster 2 1 1" in text
    assert "AWS::EC2::VPC Vpc vpc-0a1b create complete service" in text


def test_what_the_emulator_could_not_create_is_said_by_type(full_page: str) -> None:
    _, text = words_of(full_page).split("What the emulator could not create")
    recorded, held = text.split("The other 2 resources are held by an emulated service")
    assert "3 resources of 3 types exist on paper only" in recorded
    assert "validated against AWS's published schema and recorded; nothing behind them runs" in recorded
    assert "AWS::SageMaker::Cluster 1" in recorded
    assert "AWS::EC2::VPC 1 AWS::IAM::Role 1" in held


def test_a_deployment_on_aws_itself_has_no_part_about_an_emulator(
    run: RunDirectory, deployment: dict[str, Any]
) -> None:
    resources = [{key: value for key, value in each.items() if key != "depth"} for each in deployment["resources"]]
    deployment |= {"emulated": False, "resources": resources}
    text = words_of(page_of(run.start().document("deployment.json", deployment)))
    assert "Platform atlas: 5 resources in 2 stacks, through CloudFormation at" in text
    assert "emulat" not in text


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The name and the page of a run that failed after step 6."""
    run = RunDirectory(tmp_path_factory.mktemp("failed"))
    run.start().steps(1, 6).document("launch.json", LAUNCH | {"exit_status": 1})
    return run.path.name, page_of(run)


def test_a_run_that_failed_says_so_with_its_exit_status_and_how_it_goes_on(failed: tuple[str, str]) -> None:
    text = words_of(failed[1])
    assert "Did not finish: step 6 of 10 is the last that was reported." in text
    assert "exit status 1; logs/ has what each rank said" in text
    assert "resumes from the checkpoint of step 4" in text


def test_the_cause_of_a_failure_is_the_one_that_explain_prints(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.start().steps(1, 6).document("launch.json", LAUNCH | {"exit_status": 1})
    logs = tmp_path / "logs" / "none_0" / "attempt_0" / "1"
    logs.mkdir(parents=True)
    (logs / "stderr.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    (finding,) = explain(evidence_of_run(tmp_path))
    text = words_of(page_of(run))
    assert f"Cause: {finding.cause}. Fix: {finding.remedy}." in text and "GPU memory" in finding.cause


def test_the_page_says_what_was_run_what_to_do_next_and_what_trainway_is(failed: tuple[str, str]) -> None:
    name, page = failed
    text = words_of(page)
    assert "Training of the model tiny, with 2.36 million parameters, on 2 processes (cpu), launched on" in text
    assert f"<code>trainway explain {name}</code> says why." in page
    assert f"<code>trainway resume {name}</code> resumes from the checkpoint of step 4." in page
    assert "Trainway stands up a distributed-training platform on AWS from one file" in text


def test_a_run_that_finished_says_where_its_weights_are(full_page: str) -> None:
    text = words_of(full_page)
    assert re.search(r"Next: The weights are in \S+step-\d+\.", text), text


def test_a_run_that_nobody_launched_is_resumed_by_its_command(run: RunDirectory) -> None:
    text = words_of(page_of(run.start().steps(1, 6)))
    assert "The same command resumes from the checkpoint of step 4." in text
    assert "trainway resume" not in text


def test_a_narrow_screen_has_drawings_of_its_own_and_nothing_wider_than_it(full_page: str) -> None:
    narrow = full_page[full_page.index("max-width: 40rem") :]
    rules = narrow[: narrow.index("@media print")]
    for rule in (".chart.wide { display: none; }", ".chart.small { display: block; }", "overflow-x: auto"):
        assert rule in rules
    assert "min-width: 30rem" not in full_page
    small = re.findall(r'<div class="chart small"><svg[^>]*viewBox="0 0 ([\d.]+) ', full_page)
    # In points, of which text has ten: at 360 pixels it is as large as nine pixels or larger.
    assert len(small) == 3
    assert all(10 * 360 / float(width) >= 9 for width in small)


def test_a_run_without_an_ending_may_still_be_running(run: RunDirectory, launch: dict[str, Any]) -> None:
    del launch["ended"], launch["exit_status"]
    run.start().document("launch.json", launch)
    assert "killed, or it was still running" in words_of(page_of(run))


def nodes_at(usd: float | None) -> dict[str, Any]:
    """The nodes of a run in its launch.json, with the list price of one."""
    as_of = None if usd is None else "2026-07-20"
    bought = {"instance_type": "p5.48xlarge", "bought": "on demand", "region": "us-east-1"}
    return {"count": 4, "instance_type": "p5.48xlarge", "price": {**bought, "usd_per_hour": usd, "as_of": as_of}}


def test_the_report_has_what_the_run_cost(run: RunDirectory, launch: dict[str, Any]) -> None:
    """An attempt takes the seconds between its first and its last event; the page says the hours' worth."""
    run.start(resumed_from=10).end(10).document("launch.json", launch | {"nodes": nodes_at(3600.0)})
    history = make_history(read_events(run.path))
    expected = f"{4 * history.seconds:,.2f}"
    text = words_of(page_of(run))
    assert f"Its attempts cost about ${expected}: 4 × p5.48xlarge on demand for" in text
    assert "at $3,600.00 an hour each, by the list price of 2026-07-20." in text


def test_a_cost_that_is_unknown_is_said(run: RunDirectory, launch: dict[str, Any]) -> None:
    run.start().document("launch.json", launch | {"nodes": nodes_at(None)})
    text = words_of(page_of(run))
    assert "What the run cost is unknown: no price was known for 4 × p5.48xlarge on demand in us-east-1." in text


def test_a_run_of_this_machine_has_no_cost(full_page: str) -> None:
    assert "cost" not in words_of(full_page).split("Platform atlas")[0]


def test_a_run_stopped_in_order_is_no_failure(run: RunDirectory) -> None:
    assert "Stopped in order at step 6 of 10." in words_of(page_of(run.start(resumed_from=6).end(6)))


def test_a_run_without_steps_has_a_page_without_curves(run: RunDirectory) -> None:
    page = page_of(run.start())
    assert "Did not finish: no step was reported." in words_of(page)
    assert "No step was recorded, so there are no curves." in words_of(page)
    assert Outline(page).count("svg") == 0


def test_a_run_of_one_step_is_drawn(run: RunDirectory) -> None:
    page = page_of(run.start().step(1, loss=7.5))
    assert "The loss is 7.5000 after 4,096 tokens" in words_of(page)
    assert Outline(page).count("svg") == 8


def test_a_loss_that_was_lost_is_said_at_the_top(run: RunDirectory) -> None:
    text = words_of(page_of(run.start().steps(1, 5).steps(6, 10, loss=float("nan")).end(10)))
    assert "was not a finite number at step 6 for the first time, and did not recover" in text


@pytest.mark.parametrize("name", ["launch.json", "deployment.json"])
@pytest.mark.parametrize(("content", "why"), [("{", "Invalid JSON"), ("{}", "Field required")])
def test_a_damaged_document_is_named_with_the_reason(run: RunDirectory, name: str, content: str, why: str) -> None:
    (run.start().path / name).write_text(content)
    with pytest.raises(RunUnreadable) as caught:
        write_report(run.path)
    assert caught.value.where == run.path / name
    assert why in caught.value.why
    assert not (run.path / "report.html").exists()


def test_a_page_that_cannot_be_written_is_said(run: RunDirectory) -> None:
    (run.start().path / "report.html").mkdir()
    with pytest.raises(RunUnreadable, match="the report cannot be written"):
        write_report(run.path)


def test_the_command_prints_what_is_wrong_and_ends_with_status_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trainway.cli", "report", str(tmp_path / "nowhere")]
    shown = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert shown.returncode == 2
    assert shown.stderr.startswith(f"there is no run {tmp_path / 'nowhere'}\n    why: ")
    assert "Traceback" not in shown.stderr


def test_importing_the_package_loads_nothing_that_draws_or_renders() -> None:
    heavy = ("matplotlib", "numpy", "jinja2", "pydantic")
    code = f"import sys, trainway.report; print([name for name in {heavy} if name in sys.modules])"
    assert run_python(code) == "[]"


def test_summarizing_loads_neither_charts_nor_template(run: RunDirectory) -> None:
    run.start().steps(1, 2)
    code = (
        "import sys; from pathlib import Path; from trainway.report import summarize;"
        "summarize(Path(sys.argv[1])); print([n for n in ('matplotlib', 'jinja2') if n in sys.modules])"
    )
    assert run_python(code, run.path) == "[]"


def test_the_command_takes_the_name_of_a_run_or_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "runs" / "named"
    run.mkdir(parents=True)
    RunDirectory(run).start(resumed_from=10).end(10).document("launch.json", LAUNCH)
    monkeypatch.chdir(tmp_path)
    for asked in ("named", "runs/named", str(run)):
        told = CliRunner().invoke(app, ["report", asked])
        assert told.exit_code == 0 and Path(told.stdout.strip()).resolve() == run / "report.html"
    with pytest.raises(UsageError, match="there is no run unknown"):
        CliRunner().invoke(app, ["report", "unknown"], catch_exceptions=False)


def test_a_page_has_the_newest_interval_that_the_job_chose_and_why(run: RunDirectory) -> None:
    chosen = {
        "steps": 40,
        "seconds": 200.0,
        "stall_seconds": 0.05,
        "write_seconds": 31.0,
        "step_seconds": 5.0,
        "nodes": 64,
        "interruptions_per_1000_node_days": 3.79,
        "bound": "write",
    }
    run.start()
    assert "The job chose" not in page_of(run)
    run.event("checkpoint_interval", chosen | {"steps": 10}).event("checkpoint_interval", chosen)
    assert (
        "The job chose 40 steps (3 min 20 s) between checkpoints, because a checkpoint takes that long to write. A "
        "save stops training for 50.0 ms and is complete after 31.0 s. A step takes 5.00 s. The run has 64 nodes, and "
        "expects 3.79 interruptions per 1,000 node-days."
    ) in page_of(run)
