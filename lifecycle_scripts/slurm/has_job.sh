#!/usr/bin/env bash
# Check that PAM_USER has a job on this node: a process that slurmstepd started, such as the extern step of each job.
steps=$(pgrep --delimiter , --exact slurmstepd)
if [[ -z "$steps" ]] || ! pgrep --uid "$PAM_USER" --parent "$steps" >/dev/null; then
  echo "Access denied: $PAM_USER has no job on this node; begin one, and come then"
  exit 1
fi
