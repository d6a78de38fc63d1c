"""Submitting a run: its directory is made, and sbatch reads the script."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from trainway.launch.program.request import Request
from trainway.launch.slurm.cluster import cluster_of, on_cluster
from trainway.launch.slurm.dependency import earlier_run, has_succeeded
from trainway.launch.slurm.options import SlurmOptions
from trainway.launch.slurm.script import heredoc, render_script
from trainway.launch.slurm.suspect_nodes import exclude_at_submit
from trainway.launch.target.protocol import Handle
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.shown import shown


def submit(request: Request, catalogue: Catalogue, options: SlurmOptions | None = None) -> Handle:
    """Submit a run, and return its handle.

    One of the same name that has not ended yet is waited for. Raises UsageError where the platform does not have what
    the options ask for, the cluster cannot be asked, or Slurm refuses the job.
    """
    options = options or SlurmOptions()
    if options.after and has_succeeded(request, earlier_run(request, options.after)):
        # Slurm forgets jobs a while after their end, and refuses a dependency on one that it does not know.
        options = replace(options, after=None)
    script = render_script(request, catalogue, options)
    cluster = cluster_of(request.hand_off, options.user)
    # sbatch opens the log in it, and makes no directories.
    line = (
        _open_to_team(request)
        + exclude_at_submit(request, options.exclude)
        + f"mkdir -p {shlex.quote(str(request.directory / 'logs'))} && "
        + f'sbatch --parsable "${{exclude[@]}}" {heredoc(script)}'
    )
    said = on_cluster(line, cluster, what=f"{request.run} cannot be submitted")
    # `id` or `id;cluster`: https://slurm.schedmd.com/sbatch.html, --parsable (read 2026-11-21). A profile of the
    # cluster may print other lines before.
    found = re.search(r"(?:^|\n)(\d+)(?:;\S*)?\s*$", said)
    if found is None:
        why = f"sbatch printed no number of a job: {shown(said) or 'it printed nothing'}"
        fix = "`squeue --me` on the cluster says whether the job is there; ask who administers the cluster"
        raise usage_error(f"{request.run} cannot be submitted", why=why, fix=fix)
    return {**cluster, "job": found[1], "directory": str(request.directory)}


def _open_to_team(request: Request) -> str:
    """Return a line of bash that creates the directory of the team's runs for all of its members, if it is absent."""
    if not request.hand_off.team_data:
        return ""
    directory = shlex.quote(str(request.directory.parent))
    return f"[[ -d {directory} ]] || mkdir -m 1777 {directory}\n"


def find(request: Request, options: SlurmOptions) -> Handle | None:
    """Return the handle of the job with the name of a run, or None if Slurm does not have it.

    Slurm forgets jobs a while after their end. The outcome of the run is then known from its directory.
    """
    cluster, outcome = cluster_of(request.hand_off, options.user), shlex.quote(str(request.directory / "outcome"))
    line = f"""
job=$(squeue --noheader --states=all --name={shlex.quote(request.run)} --format=%A) || exit
if [[ -z $job && -e {outcome} ]]; then
  job=0
fi
echo "${{job%%$'\\n'*}}"
"""
    job = on_cluster(line, cluster, what=f"it is unknown whether {request.run} was submitted").strip()
    return {**cluster, "job": job, "directory": str(request.directory)} if job else None
