# Sourced by the scripts beside it: one line per phase on the terminal, everything else in build/log/.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
log_folder=build/log

# die <sentence>: what went wrong and the command that would help.
die() {
  printf 'spillway: %s\n' "$*" >&2
  exit 1
}

# A dot every ten seconds, until killed. The read waits on a pipe nobody writes to: a sleep that needs no process.
tick_away() {
  local quiet
  exec {quiet}<> <(:)
  while true; do
    read -r -t 10 -u "$quiet"
    printf .
  done
}

# phase <log name> <what is happening> <command...>: runs the command with its output in a log and prints the time it
# took. On failure the end of the log is shown; the exit code is the command's.
phase() {
  local log="$log_folder/$1.log" what=$2 start=$SECONDS code=0 ticker
  shift 2
  mkdir -p "$log_folder"
  printf '%s ' "$what"
  tick_away 2>/dev/null &
  ticker=$!
  trap 'kill "$ticker" 2>/dev/null' EXIT
  "$@" >"$log" 2>&1 || code=$?
  kill "$ticker" 2>/dev/null
  wait "$ticker" 2>/dev/null
  trap - EXIT
  if ((code == 0)); then
    printf ' %d s\n' $((SECONDS - start))
  else
    printf ' failed after %d s; the end of %s:\n' $((SECONDS - start)) "$log"
    tail -n 20 "$log" | sed 's/^/  | /'
  fi
  return "$code"
}
