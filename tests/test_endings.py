"""A command that is told to end leaves no process and no file, and a disk that takes no more is a sentence."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.command_line import run_trainway
from tests.known_day import ON_KNOWN_DAY
from tests.representatives import with_representatives

ROOT = Path(__file__).parents[1]
TRAINWAY = (sys.executable, "-m", "trainway.cli")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system, which requires root")
on_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")


def wait_for(what: str, is_so: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"{what}: not after {seconds} s"
        time.sleep(0.05)


def hear_signals() -> None:
    """Hear Ctrl-C although a shell runs the tests in the background, and hang-up although `nohup` does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Command:
    """A command with a directory of its own for temporary files. `mark` is in the environment of all it starts."""

    def __init__(self, directory: Path, *command: str, **options: object) -> None:
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        self.mark = f"TRAINWAY_TEST={uuid.uuid4()}"
        self.said: tuple[str, str] = ("", "")
        name, _, value = self.mark.partition("=")
        environment = {**os.environ, name: value, "TMPDIR": str(self.temporary)}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        self.process = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            text=True,
            stdout=-1,
            stderr=-1,
            start_new_session=True,
            preexec_fn=hear_signals,
            **options,
        )  # type: ignore[call-overload]

    def started(self) -> list[str]:
        """Return the command lines of all its processes that are alive."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
        return [line for line in found if line]

    def wait_for_process(self, name: str, seconds: float = 240) -> None:
        """Wait until a process runs whose command line has `name`. Fail with what the command said if it never does."""
        end = time.monotonic() + seconds
        while not any(name in line for line in self.started()):
            if self.process.poll() is not None or time.monotonic() > end:
                status, running = self.process.returncode, self.started()
                self.kill()
                pytest.fail(f"no {name} runs. Exit status {status}, processes {running}, said: {self.said}")
            time.sleep(0.05)

    def end(self, number: int) -> int:
        """Send a signal to the first process alone. Return its exit status once it has ended."""
        self.process.send_signal(number)
        said, errors = self.process.communicate(timeout=300)
        assert "Traceback" not in said + errors, errors
        return self.process.returncode

    def kill(self) -> None:
        """End what is left after a test that failed."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue
        self.said = self.process.communicate()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    commands: list[Command] = []

    def start_one(*command: str, **options: object) -> Command:
        commands.append(Command(tmp_path, *command, **options))
        return commands[-1]

    yield start_one
    for each in commands:
        each.kill()


DEMO = [
    # While the emulator starts, while the CDK runs below the command, and while the ranks train.
    pytest.param(signal.SIGTERM, "emulator.server", id="SIGTERM to a command whose emulator starts"),
    pytest.param(
        signal.SIGHUP, "jsii-runtime", marks=pytest.mark.exhaustive, id="SIGHUP to a command whose CDK app runs"
    ),
    pytest.param(signal.SIGTERM, "jsii-runtime", marks=pytest.mark.exhaustive, id="SIGTERM to the same"),
]


@on_linux
@pytest.mark.parametrize(("number", "during"), DEMO)
def test_a_demo_that_is_told_to_end_leaves_nothing(
    number: int, during: str, tmp_path: Path, start: Callable[..., Command]
) -> None:
    command = start(*TRAINWAY, "demo", f"--run={tmp_path / 'run'}")
    command.wait_for_process(during)
    assert command.end(number) == 128 + number
    wait_for("every process has ended", lambda: command.started() == [])
    assert list(command.temporary.iterdir()) == []


@on_linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_at_the_start_of_a_command_below_ends_that_command(number: int, start: Callable[..., Command]) -> None:
    """The signal comes when the command below has started, and before its process is known."""
    code = (
        "import os, subprocess, sys\n"
        "from trainway import cli\n"
        "from trainway.parts.endings import run_to_end\n"
        "started = subprocess.Popen\n"
        "def signaled(*arguments, **options):\n"
        "    process = started(*arguments, **options)\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    return process\n"
        "subprocess.Popen = signaled\n"
        "cli.narrowed = lambda _: lambda: run_to_end(['sleep', '3600'], stdout=subprocess.PIPE, stderr=sys.stderr)\n"
        "try:\n    cli.main()\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    command = start(sys.executable, "-c", code)
    said, errors = command.process.communicate(timeout=300)
    assert command.process.returncode == 128 + number, said + errors
    assert command.started() == []


@on_linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_below_ends_with_its_own_processes_and_files(number: int, start: Callable[..., Command]) -> None:
    below = "mktemp -d; sleep 3600 & (trap '' TERM HUP; sleep 3601) & echo begun >&2; wait"
    code = (
        "import subprocess, sys\n"
        "from trainway import cli\n"
        "from trainway.parts.endings import run_to_end\n"
        "def work():\n"
        f"    run_to_end(['sh', '-c', {below!r}], stdout=subprocess.PIPE, stderr=sys.stderr)\n"
        "cli.narrowed = lambda _: work\n"
        "try:\n    cli.main()\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    command = start(sys.executable, "-c", code)
    assert command.process.stderr is not None and command.process.stderr.readline() == "begun\n"
    assert list(command.temporary.glob("trainway-*/*")), "the shell has a temporary file"
    assert command.end(number) == 128 + number
    wait_for("every process has ended", lambda: command.started() == [])
    assert list(command.temporary.iterdir()) == []


@on_linux
def test_a_second_signal_does_not_interrupt_the_cleanup(start: Callable[..., Command]) -> None:
    code = (
        "import time\n"
        "from trainway import cli\n"
        "def work():\n"
        "    try:\n        print('begun', flush=True); time.sleep(3600)\n"
        "    finally:\n        print('cleans', flush=True); time.sleep(1); print('cleaned', flush=True)\n"
        "cli.narrowed = lambda _: work\n"
        "cli.main()\n"
    )
    command = start(sys.executable, "-c", code)
    assert command.process.stdout is not None
    assert command.process.stdout.readline() == "begun\n"
    command.process.terminate()
    assert command.process.stdout.readline() == "cleans\n"
    command.process.send_signal(signal.SIGHUP)
    command.process.terminate()
    said, _ = command.process.communicate(timeout=300)
    assert said == "cleaned\n" and command.process.returncode == 128 + signal.SIGTERM


@on_linux
def test_nohup_keeps_a_command_alive(start: Callable[..., Command]) -> None:
    code = (
        "import signal, sys\n"
        "from trainway import cli\n"
        "def work():\n"
        "    print('begun', flush=True) or sys.stdin.readline() and print('done')\n"
        "cli.narrowed = lambda _: work\n"
        "cli.main()\n"
    )
    command = start("nohup", sys.executable, "-c", code, stdin=subprocess.PIPE)
    assert command.process.stdout is not None and command.process.stdout.readline() == "begun\n"
    command.process.send_signal(signal.SIGHUP)
    said, _ = command.process.communicate("go on\n", timeout=60)
    assert said == "done\n" and command.process.returncode == 0


def on_disk(mount: str, directory: Path, shell: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in a mount namespace, with another file system at `directory`. $0 is the directory."""
    inside = ["unshare", "--mount", "--propagation=private", "sh", "-uc", f"{mount}\n{shell}", str(directory)]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        inside, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False, timeout=1800
    )


NO_SPACE = 'mount -t tmpfs -o size=64k none "$0"; head -c 65536 /dev/zero >"$0/rest" 2>/dev/null'
READ_ONLY = 'mount -t tmpfs -o ro none "$0"'


@as_root
@pytest.mark.parametrize(
    ("mount", "shell", "says"),
    [
        (NO_SPACE, 'trainway schema >"$0/schema.json"', "the output cannot be written\n    why: the disk is full"),
        pytest.param(
            *(NO_SPACE, 'trainway manifests examples/eks-p5.yaml --out "$0/out"', "why: the disk is full"),
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            READ_ONLY,
            'trainway manifests examples/eks-p5.yaml --out "$0/out"',
            "why: the file system is read-only",
            marks=pytest.mark.exhaustive,
        ),
        (READ_ONLY, 'trainway demo --run "$0/run"', "the file system is read-only"),
    ],
)
def test_a_disk_that_takes_no_more_is_a_sentence(mount: str, shell: str, says: str, tmp_path: Path) -> None:
    ran = on_disk(mount, tmp_path, shell)
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert says in ran.stderr and "fix: " in ran.stderr
    assert "Traceback" not in ran.stderr and "Exception ignored" not in ran.stderr


INTERRUPTS = """
import builtins, os, signal, sys
name, told, once = os.environ["INTERRUPT_AT"], builtins.__import__, []
def imported(asked, *rest, **more):
    if asked == name and not once:
        once.append(asked)
        os.kill(os.getpid(), signal.SIGINT)
    return told(asked, *rest, **more)
builtins.__import__ = imported
"""


@pytest.mark.parametrize(
    "module",
    with_representatives(
        ["trainway.cli", "typer", "trainway.commands", "pydantic", "trainway.spec.loader", "yaml"],
        ["trainway.cli", "trainway.spec.loader"],
    ),
)
def test_an_interrupt_during_any_import_shows_no_traceback(module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "INTERRUPT_AT": module}
    command = [sys.executable, "-m", "trainway.start", "check", str(ROOT / "platform.yaml"), *ON_KNOWN_DAY]
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode in (-signal.SIGINT, 1, 130), done
    assert "no problems" not in done.stdout and "Traceback" not in done.stderr, done.stderr


class _CrashesElsewhere:
    """An object that ends any process but its own when it is destroyed, as the owner of a thread can."""

    def __init__(self) -> None:
        self.itself, self.process = self, os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os.kill(os.getpid(), signal.SIGSEGV)


def test_a_command_in_a_fork_destroys_nothing_of_the_test_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainway.cli.main", gc.collect)
    gc.disable()
    try:
        _CrashesElsewhere()
        forked = run_trainway("--version", directory=tmp_path)
    finally:
        gc.enable()
    assert forked.returncode == 0, forked.stderr


def test_a_command_in_a_fork_that_crashes_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainway.cli.main", lambda: os.kill(os.getpid(), signal.SIGSEGV))
    crashed = run_trainway("--version", directory=tmp_path)
    assert crashed.returncode == -signal.SIGSEGV and "Fatal Python error: Segmentation fault" in crashed.stderr
