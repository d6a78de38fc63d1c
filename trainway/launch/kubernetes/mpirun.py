"""How mpirun starts the ranks of a run on its nodes: the command, its settings, and how the ranks are told to stop.

Settings are environment variables, so that they also hold for an mpirun that a program calls itself. Open MPI 4 reads
the names with OMPI_MCA, some of which the MPI Operator sets. Open MPI 5 reads the names of PRRTE instead: without them
it does not find the hosts.
https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller.go (ompiEnvVars)
https://docs.open-mpi.org/en/v5.0.x/launching-apps/ssh.html
https://docs.open-mpi.org/en/v5.0.x/mca.html (all read 2026-11-23)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath

from trainway.launch.kubernetes.process import DIRECTORY, KILL_RANKS_AFTER
from trainway.launch.program.program import INSTALLER, LOCK, STARTER, SYNCED_CODE, Program
from trainway.launch.program.rank_launchers import ONCE_PER_GPU, launches_ranks
from trainway.launch.program.request import Request
from trainway.manifests.pod import USER
from trainway.spec.errors import usage_error

# In the image, where the EFA installer puts it. By its full name, mpirun finds its own parts on the other nodes.
MPIRUN = "/opt/amazon/openmpi/bin/mpirun"
# Only root can read the keys of a host, and bind ports below 1024.
SSH_PORT = 2222
KEYS = "/etc/trainway-ssh"
_SSHD = (
    "ssh-keygen -q -t ed25519 -N '' -f /tmp/host_key && exec /usr/sbin/sshd -De -f /dev/null "
    f"-p {SSH_PORT} -h /tmp/host_key -o PidFile=none -o UsePAM=no -o StrictModes=no "
    f"-o AuthorizedKeysFile={KEYS}/authorized_keys"
)
# The operator makes a key for each run, so no host is known before.
_SSH = (
    f"ssh -p {SSH_PORT} -i {KEYS}/id_rsa -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
    "-o LogLevel=ERROR -o ConnectionAttempts=10"
)
# Where the operator mounts the list of hosts: configMountPath of its controller.
_HOSTS = "/etc/mpi/hostfile"
# What a CUDA image sets in its own environment (container/Dockerfile), which ssh does not pass on.
OF_THE_IMAGE = (
    "FI_EFA_USE_HUGE_PAGE",
    "LD_LIBRARY_PATH",
    "NCCL_NET_PLUGIN",
    "NCCL_SOCKET_IFNAME",
    "OMPI_MCA_btl",
    "OMPI_MCA_btl_tcp_if_exclude",
    "OMPI_MCA_pml",
    "OMP_NUM_THREADS",
    "OPAL_PREFIX",
    "PATH",
    "PMIX_MCA_gds",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
)


def under_mpirun(request: Request) -> Request:
    """Return the request whose first node starts the ranks of all nodes by mpirun.

    torchrun and training.elastic are started once on each node, and every other command once for each GPU. A script,
    and a command that begins with mpirun, runs on the first node only, and starts the ranks itself.

    mpirun passes SIGUSR1 on to all ranks and waits for them. It kills them within a second of SIGTERM. So a stop is
    SIGUSR1 to mpirun, and each rank's starter gives its program the signal that the job file names.
    """
    program, ranks = request.program, processes_per_node(request)
    is_per_gpu = _is_per_gpu(program)
    if ranks is None:
        _check_own_mpirun(program)
        return request
    starter = ("python3", str(DIRECTORY / STARTER.name))
    packages = (f"--packages={DIRECTORY / LOCK}",) if INSTALLER.name in program.files else ()
    given = (*packages, *(word for word in program.started_by or () if word.startswith(("--secret=", "--per-gpu"))))
    words = program.command[len(ONCE_PER_GPU) :] if is_per_gpu else program.command
    rank = (*starter, "--rank", f"--stop-signal={program.stop.signal}", *given, "--", *words)
    mpirun = (
        MPIRUN,
        "-np",
        str(request.allocation.nodes * ranks),
        "--map-by",
        f"ppr:{ranks}:node",
        "--bind-to",
        "none",
    )
    of_first = (word for word in program.started_by or (f"--grace={KILL_RANKS_AFTER}",) if word != "--per-gpu")
    started_by = (*of_first, "--stop-signal=SIGUSR1")
    return replace(request, program=replace(program, command=(*mpirun, *rank), started_by=started_by))


def _check_own_mpirun(program: Program) -> None:
    """Raise UsageError if ranks that the program's own mpirun starts would lack packages or secrets of the job file."""
    for key, wanted in (("run.packages", program.packages), ("run.secrets", program.secrets)):
        if wanted:
            raise usage_error(
                f"{program.name} cannot be launched as an MPIJob",
                why=f"its own mpirun starts ranks on nodes where no starter has read {key}",
                fix="leave mpirun out of `run.command`, so that the launcher starts the ranks, or leave the key out",
            )


def processes_per_node(request: Request) -> int | None:
    """Return how many processes mpirun starts on each node, or None if the program calls mpirun itself."""
    program, name = request.program, PurePath(request.program.command[0]).name
    if program.is_script or name in ("mpirun", "mpiexec", "horovodrun"):
        return None
    return 1 if launches_ranks(program.command) and not _is_per_gpu(program) else request.allocation.ranks


def _is_per_gpu(program: Program) -> bool:
    """Return whether torchrun would only start the program once for each GPU, which mpirun does itself."""
    return program.command[: len(ONCE_PER_GPU)] == ONCE_PER_GPU


def mpirun_environment(variables: Iterable[str]) -> dict[str, str]:
    """Return the settings of mpirun.

    mpirun passes the variables of these names on to its ranks, and those of the image. The starter leaves out the
    variables that are not set (trainway/launch/node/node_of_run.py).
    """
    return {
        "TRAINWAY_MPI_VARIABLES": ";".join(sorted({*variables, *OF_THE_IMAGE})),
        "OMPI_MCA_plm_rsh_agent": _SSH,
        "PRTE_MCA_plm_ssh_agent": _SSH,
        "PRTE_MCA_prte_default_hostfile": _HOSTS,
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
    }


def worker_command(code: str | None) -> Sequence[str]:
    """Return what a node runs on which mpirun starts ranks: it fetches the archive `code`, and then waits for ssh.

    mpirun starts the ranks in the directory in which the launcher's starter has the same code.
    """
    if code is None:
        return ("sh", "-c", _SSHD)
    fetch = f'python3 {DIRECTORY / SYNCED_CODE.name} "$0" /tmp/trainway-code-{USER} > /dev/null'
    return ("sh", "-c", f"{fetch} && {_SSHD}", code)
