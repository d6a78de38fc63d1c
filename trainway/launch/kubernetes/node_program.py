"""Render the command of a node, with the programs that wrap torchrun.

On a platform without a file system, run_files.py copies the files of the run to S3. In a run that continues after a
node failure, late_failure.py delays the report of a failed node.
"""

from __future__ import annotations

from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.pod_directory import DIRECTORY
from trainway.launch.program.lost_nodes import torchrun_nodes
from trainway.launch.program.program import LATE_FAILURE, PASSED_SIGNALS, RUN_FILES
from trainway.launch.program.request import Request

# The kubelet and the controllers need a few seconds to end the job after its first pods succeed. A failed run restarts
# later by this time.
_SECONDS_OF_SUCCESS = 30


def node_program(request: Request, options: KubernetesOptions) -> tuple[str, ...]:
    """Return the command that each node runs."""
    program = request.command(DIRECTORY)
    if request.hand_off.file_system is None:
        where = (f"--directory={request.directory}", f"--location={request.location}")
        program = ("python3", str(DIRECTORY / RUN_FILES.name), *where, "--", *program)
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
    without_file_system = (RUN_FILES,) if request.hand_off.file_system is None else ()
    late = (LATE_FAILURE,) if options.continues and options.kind != "HyperPodPyTorchJob" else ()
    wrappers = (*without_file_system, *late)
    files = (*wrappers, PASSED_SIGNALS) if wrappers else ()
    return {file.name: file.read_text(encoding="utf-8") for file in files}
