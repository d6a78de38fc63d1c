"""Render the command of a node, with the programs that wrap torchrun.

Where no file system mirrors the data bucket, run_files.py copies the files of the run to S3. In a run that continues
after a node failure, late_failure.py delays the report of a failed node. The starter of a program does so itself.
"""

from __future__ import annotations

from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.pod_directory import DIRECTORY
from trainway.launch.platform.locations import nodes_copy_runs
from trainway.launch.program.lost_nodes import torchrun_nodes, waiting_for_success
from trainway.launch.program.program import LATE_FAILURE, NODE_RANK, PASSED_SIGNALS, RUN_FILES
from trainway.launch.program.request import Request

# The kubelet and the controllers need a few seconds to end the job after its first pods succeed. A failed run restarts
# later by this time.
_SECONDS_OF_SUCCESS = 30


def copying_program(request: Request) -> tuple[str, ...]:
    """Return the command of a node that copies the files of the run to S3 if nothing else does."""
    program = request.command(DIRECTORY)
    if not nodes_copy_runs(request.hand_off):
        return program
    shared = ("--shared",) if request.hand_off.file_system else ()
    where = (f"--directory={request.directory}", f"--location={request.location}")
    return ("python3", str(DIRECTORY / RUN_FILES.name), *shared, *where, "--", *program)


def node_program(request: Request, options: KubernetesOptions) -> tuple[str, ...]:
    """Return the command that each node runs."""
    if options.continues and request.program.started_by is not None:
        return copying_program(waiting_for_success(request, _SECONDS_OF_SUCCESS))
    program = copying_program(request)
    if options.continues:
        program = ("python3", str(DIRECTORY / LATE_FAILURE.name), str(_SECONDS_OF_SUCCESS), *program)
    return program


def node_program_with_nodes(request: Request, options: KubernetesOptions) -> tuple[str, ...]:
    """Return the command that each node runs under an operator that overwrites PET_NNODES.

    The operators of TrainJob and PyTorchJob count spare nodes as nodes with ranks.
    """
    program = node_program(request, options)
    return ("env", f"PET_NNODES={torchrun_nodes(request, options)}", *program) if options.continues else program


def node_files(request: Request, options: KubernetesOptions) -> dict[str, str]:
    """Return the text of each file that the command of a node uses, by file name."""
    copying = (RUN_FILES, NODE_RANK) if nodes_copy_runs(request.hand_off) else ()
    is_late = options.continues and options.kind != "HyperPodPyTorchJob" and request.program.started_by is None
    late = (LATE_FAILURE,) if is_late else ()
    wrappers = (*copying, *late)
    files = (*wrappers, PASSED_SIGNALS) if wrappers else ()
    return {file.name: file.read_text(encoding="utf-8") for file in files}
