# shellcheck shell=bash
# Installs Run:ai's cluster with what its control plane says of it, and makes the projects there. Sourced after lib.sh.
#
#   RUN_AI_SECRET   name or ARN of the secret of kubernetes.run_ai; unset or empty without that section

# run_ai HERE WORD...: runs delivery/run_ai.py with the value of the secret, which is in no argument and no log.
run_ai() {
  local value region=$AWS_REGION
  require RUN_AI_SECRET
  # The secret can be in another Region than the platform.
  [[ "$RUN_AI_SECRET" != arn:* ]] || IFS=: read -r _ _ _ region _ <<<"$RUN_AI_SECRET"
  value=$(aws secretsmanager get-secret-value --secret-id "$RUN_AI_SECRET" --region "$region" --query SecretString --output text) ||
    fail "Run:ai's credentials cannot be read: kubernetes.run_ai.secret names $RUN_AI_SECRET, and the role needs" \
      "secretsmanager:GetSecretValue on it, and kms:Decrypt on its key, which is kubernetes.run_ai.key"
  python3 "$1/run_ai.py" "${@:2}" <<<"$value"
}

# pull_run_ai HERE CHART LOCATION VERSION DESTINATION: fetches the chart with the key of NVIDIA NGC.
pull_run_ai() {
  local key
  key=$(run_ai "$1" ngc-key) || exit
  # shellcheck disable=SC2016 # The user name begins with a dollar.
  helm repo add run-ai "$3" --username '$oauthtoken' --password-stdin <<<"$key" ||
    fail "$3 refuses the ngc_api_key of the secret that kubernetes.run_ai.secret names"
  helm pull "run-ai/$2" --version "$4" --destination "$5"
}

# prepare_run_ai HERE WORK VERSION: leaves the chart's values in WORK/run_ai/values.json, and applies the Secrets that they name.
prepare_run_ai() {
  run_ai "$1" install "$2/manifests/run_ai/control_plane.json" "$3" "$2/run_ai" || exit
  apply "$2/run_ai/objects.json"
}

# share_run_ai HERE WORK: makes the projects. The namespace of a team says whose project it was when the team has left.
share_run_ai() {
  local teams names=()
  teams=$(kubectl get namespaces --selector 'trainway.dev/revision,runai/queue' --output 'jsonpath={.items[*].metadata.labels.runai/queue}')
  read -r -a names <<<"$teams"
  run_ai "$1" projects "$2/manifests/run_ai/control_plane.json" "${names[@]}" || exit
}
