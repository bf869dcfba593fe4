# A test that waits for something can fail because another program took the machine. Up to three that failed are run once
# more, alone; whatever fails twice has failed. What passed only then is counted and named at the end of every pytest that
# follows. Three is for ten runs together where PREFLIGHT_CI_HISTORY names a file that outlives the clone: more is our fault.
may=3
if [ -s "${PREFLIGHT_CI_HISTORY:-}" ]; then
  may=$((may - $(tail -n 9 "$PREFLIGHT_CI_HISTORY" | awk '{ sum += $2 } END { print sum + 0 }')))
fi
allowed=$may
echo "second tries that are left: $may"
export PREFLIGHT_SECOND_TRY=""

# What follows a pytest that ended with a code other than 0: its words, without those that are about the output alone.
again() {
  local code=$1 failed count
  shift
  [ "$code" = 1 ] || return "$code"
  failed=$(.venv/bin/python -c 'import json; print(*(one for one in json.load(open(".pytest_cache/v/cache/lastfailed")) if not one.startswith("checks/")), sep="\n")') || return 1
  count=$(wc -l <<<"$failed")
  [ "$count" -le "$may" ] || return 1
  printf 'failed once, run again alone: %s\n' "$failed"
  may=$((may - count))
  PREFLIGHT_SECOND_TRY+="$failed"$'\n'
  .venv/bin/pytest -n0 --last-failed --last-failed-no-failures none "$@"
}

# Write down for later runs how many this one, which has passed, took.
remember() {
  [ -z "${PREFLIGHT_CI_HISTORY:-}" ] || echo "$(date -u +%FT%TZ) $((allowed - may)) ${PREFLIGHT_SECOND_TRY//$'\n'/ }" >>"$PREFLIGHT_CI_HISTORY"
}
