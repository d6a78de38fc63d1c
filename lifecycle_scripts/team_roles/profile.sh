# shellcheck shell=sh
# Give a login shell the credentials of the user's first team, unless it has those of another one (credentials.py).
if [ -z "${AWS_CONTAINER_CREDENTIALS_FULL_URI-}" ] && [ -r /opt/trainway/team-roles/first-teams ]; then
  trainway_user=$(id -un)
  while read -r trainway_name trainway_team; do
    if [ "$trainway_name" = "$trainway_user" ]; then
      export AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1:491/$trainway_team"
    fi
  done </opt/trainway/team-roles/first-teams
  unset trainway_user trainway_name trainway_team
fi
