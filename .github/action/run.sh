#!/usr/bin/env bash
# The action's one step: onecard's page into the step summary, its document beside it, its exit status as the step's own.
set -uo pipefail

case ${ONECARD_COMMAND:-} in
  env | estimate | verdict) ;;
  *)
    echo "::error::command must be env, estimate or verdict, not \`${ONECARD_COMMAND:-}\`"
    exit 2
    ;;
esac

# Words as a shell splits them, quotes included, but nothing is run or replaced: arguments may come from a pull request.
words=()
if [ -n "${ONECARD_ARGS:-}" ]; then
  split=$(printf '%s\n' "$ONECARD_ARGS" | xargs -n 1 printf '%s\n') || {
    echo "::error::args cannot be split into words: a quote is not closed?"
    exit 2
  }
  while IFS= read -r word; do words+=("$word"); done <<<"$split"
fi

document=${ONECARD_DOCUMENT:-onecard.json}
page=$(mktemp)
trap 'rm -f "$page"' EXIT
# macOS' old bash calls an empty array unset.
onecard "$ONECARD_COMMAND" ${words[@]+"${words[@]}"} --format markdown --output "$document" >"$page"
status=$?

cat "$page"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$page" >>"$GITHUB_STEP_SUMMARY"
case $status in
  0) answer=yes ;;
  1) answer=no ;;
  3) answer=unknown ;;
  *) answer=error ;;
esac
if [ -n "${GITHUB_OUTPUT:-}" ]; then
  printf 'status=%s\nanswer=%s\ndocument=%s\n' "$status" "$answer" "$document" >>"$GITHUB_OUTPUT"
fi
for allowed in ${ONECARD_ALLOW:-}; do
  if [ "$status" = "$allowed" ] && [ "$answer" != error ]; then
    echo "::notice::onecard $ONECARD_COMMAND: $answer ($status), which is allowed here"
    exit 0
  fi
done
[ "$status" = 0 ] || echo "::error::onecard $ONECARD_COMMAND: $answer ($status)"
exit "$status"
