#!/usr/bin/env bash
# Restrict SSH on a compute node: with `slurm.login_needs_job`, only users with a job there and users with sudo can log
# in. With the image's pam_slurm_adopt, the session belongs to the job and ends with it. Without it, the epilog ends the
# session.
# https://slurm.schedmd.com/pam_slurm_adopt.html (read 2026-11-22)
set -euo pipefail
# shellcheck source=lifecycle_scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

if [[ "$ORCHESTRATOR" != hyperpod-slurm || "$NODE_ROLE" != compute ]]; then
  echo "no compute node of Slurm's, nothing to do"
  exit 0
fi

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
installed=/opt/trainway/slurm
sshd=$NODE_ROOT/etc/pam.d/sshd
session=$NODE_ROOT/etc/pam.d/trainway-session
begin="# Begin of what Trainway writes: who may log in." end="# End of what Trainway writes."

# without_ours: print the file without our lines.
without_ours() {
  sed -e "/^$begin$/,/^$end$/d" -e 's/^@include trainway-session$/@include common-session/' \
    -e 's/^account substack common-account$/@include common-account/' "$sshd"
}

if [[ "$SLURM_LOGIN_NEEDS_JOB" != true ]]; then
  if [[ -f "$sshd" ]] && grep -qxF "$begin" "$sshd"; then
    without_ours | put_file "$sshd" 0644
    rm -f "$session"
    echo "SSH asks for no job any more"
  fi
  echo "whoever has an account may log in, nothing to do"
  exit 0
fi

[[ $'\n'$(without_ours)$'\n' == *$'\n@include common-account\n'* ]] ||
  fail "$sshd has no line '@include common-account' to go after: this image is none that is known; set slurm.login_needs_job: false"
[[ "$(sshd -T 2>/dev/null)" == *"usepam yes"* ]] ||
  fail "sshd does not ask PAM, so that it would let in anybody: write 'UsePAM yes' into /etc/ssh/sshd_config"

for file in may_sudo.sh has_job.sh; do
  put_file "$NODE_ROOT$installed/$file" 0755 <"$scripts/slurm/$file"
done
rules="account sufficient pam_exec.so quiet $installed/may_sudo.sh"
sessions=common-session
if compgen -G "$NODE_ROOT/lib/security/pam_slurm_adopt.so" || compgen -G "$NODE_ROOT/lib/*/security/pam_slurm_adopt.so"; then
  adopt="pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny nodename=ip-${NODE_ADDRESS//./-}"
  rules+=$'\n'"account required $adopt"
  how="their sessions belong to their jobs"
  # pam_systemd would move the session out of the job's cgroup.
  sessions=trainway-session
  grep -v pam_systemd "$NODE_ROOT/etc/pam.d/common-session" | put_file "$session" 0644
else
  rules+=$'\n'"account required pam_exec.so quiet stdout $installed/has_job.sh"
  how="their sessions end with their last job"
fi

# Use a substack: with SSSD, common-account ends with `sufficient pam_localuser.so`, which in an included file would
# admit every local user before the rules below. https://manpages.ubuntu.com/manpages/mantic/man5/pam.d.5.html (read
# 2026-11-22)
new=$(without_ours | awk -v begin="$begin" -v rules="$rules" -v end="$end" -v sessions="$sessions" '
  $0 == "@include common-account" { print "account substack common-account"; print begin; print rules; print end; next }
  { print $0 == "@include common-session" ? "@include " sessions : $0 }')
if write_file "$sshd" 0644 <<<"$new"; then
  echo "SSH lets in who has a job here and who may use sudo; $how"
else
  echo "SSH lets in who has a job here and who may use sudo already"
fi
