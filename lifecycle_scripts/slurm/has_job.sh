#!/usr/bin/env bash
# Whether PAM_USER has a job on this node: something of theirs that slurmstepd started, as the extern step is for each job.
steps=$(pgrep --delimiter , --exact slurmstepd)
if [[ -z "$steps" ]] || ! pgrep --uid "$PAM_USER" --parent "$steps" >/dev/null; then
  echo "Access denied: $PAM_USER has no job on this node; begin one, and come then"
  exit 1
fi
