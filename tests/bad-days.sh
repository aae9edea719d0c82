#!/usr/bin/env bash
# Bad days too long or too privileged for CI: each row runs Warren as a user would, and says ok or FAILED with what it saw. The rows
# and what they printed stand in docs/robustness.md.
#
#   tests/bad-days.sh WARREN [ROW...]      as root, from the root of the repository; WARREN = a built binary; no ROW = all of them
#
# Works in a scratch folder with a copy of the binary, so that all processes of its own are known by their path. Changes nothing of
# the machine: mounts are made in mount namespaces of their own, the clock is shifted for one process (LIBFAKETIME=/path/libfaketime.so.1).
set -u
cd "$(dirname "$0")/.."
built=$(readlink -f "${1:?usage: tests/bad-days.sh WARREN [ROW...]}")
shift
S=$(mktemp -d /tmp/warren-bad-days.XXXXXX)
cp "$built" "$S/warren"
W=$S/warren
export WARREN_CACHE=$S/cache
unset JAVA_HOME
mkdir "$S/mnt"
printf 'version = 1\ntarget = "canary"\n' >"$S/empty.toml"
failed=0
trap 'kill -9 $(ours) 2>/dev/null; rm -rf "$S"' EXIT

# --- what a row is asked

# Living processes of ours: Warren, its slots, their JVMs (class paths lie in the cache).
ours() { pgrep -f "$S/(warren|cache)"; }
machine() {
    sort /proc/mounts
    find /dev/shm /tmp/warren-slots-* -maxdepth 1 -name '*slot*' 2>/dev/null | sort
    ipcs -m | awk '$6 == 0 { print "shm", $2 }'
}
before=$(machine)

ok() { printf 'ok      %-28s %s\n' "$row" "$*"; }
bad() {
    printf 'FAILED  %-28s %s\n' "$row" "$*"
    failed=1
    sed 's/^/        | /' "$S/said" | tail -n 12
}

# run LIMIT COMMAND...: output to $S/said, exit code to $code.
run() {
    local limit=$1
    shift
    timeout -k 10 "$limit" "$@" >"$S/said" 2>&1 </dev/null
    code=$?
}

# check CODE TEXT...: exit code, texts, no panic, nothing left.
check() {
    local want=$1 text left
    shift
    [ "$code" = "$want" ] || { bad "exit $code, wanted $want"; return; }
    for text in "$@"; do
        grep -qF -- "$text" "$S/said" || { bad "no \`$text\` in what it said"; return; }
    done
    ! grep -q panicked "$S/said" || { bad "it panicked"; return; }
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        left=$(ours)
        [ -n "$left" ] || break
        sleep 0.2
    done
    [ -z "$left" ] || { bad "processes left: $left"; return; }
    left=$(diff <(echo "$before") <(machine) | grep '^>')
    [ -z "$left" ] || { bad "left behind: $left"; return; }
    [ ! -d "$S/cache/tmp" ] || [ -z "$(ls "$S/cache/tmp")" ] || { bad "left in the cache: $(ls "$S/cache/tmp")"; return; }
    ok "exit $code; $(grep -m1 -F -- "${1:-}" "$S/said" | cut -c1-150)"
}

# In a mount namespace of its own: MOUNTS, then Warren. A shell runs it, so that exit codes come through.
inside="unshare -m --propagation private sh -c"

fuzz() { printf '%s fuzz canary --no-ui -o %s %s' "$W" "${2:-$S/out}" "$1"; }
fresh() { rm -rf "$S/out"; }

# --- rows

row_no_jdk() {
    mkdir -p "$S/bin"
    ln -sf "$(command -v mvn)" "$S/bin/mvn"
    # The cache and HOME are empty too: a copy of ours would do.
    WARREN_CACHE=$S/cache-jdk HOME=$S/nobody run 60 $inside "mount -t tmpfs none /usr/lib/jvm && PATH=$S/bin exec $W replay $S/empty.toml"
    check 1 "found none, and none could be fetched" "pip cannot be started" "--java"
}

row_no_network() {
    WARREN_CACHE=$S/cache-net run 120 unshare -n sh -c "MAVEN_OPTS=-Duser.home=$S/nobody exec $W fuzz zookeeper --no-ui -o $S/out"
    check 1 "is there a network" "Could not transfer"
}

# The jars of a real target: half of one in the cache is noticed by its hash and fetched again.
row_corrupt_jar() {
    printf 'version = 1\ntarget = "zookeeper"\n' >"$S/zk.toml"
    run 600 "$W" replay "$S/zk.toml"
    [ "$code" = 0 ] || { bad "set-up of zookeeper: exit $code"; return; }
    local jar
    jar=$(find "$S/cache/jars" -name 'zookeeper-[0-9]*.jar' | head -n 1)
    truncate -s 1000 "$jar"
    run 600 "$W" replay "$S/zk.toml"
    [ "$(stat -c %s "$jar")" -gt 1000 ] || { bad "the jar was not mended"; return; }
    check 0 "pass"
}

row_read_only_cache() {
    run 300 "$W" replay "$S/empty.toml"
    run 120 $inside "mount --bind $S/cache $S/cache && mount -o remount,bind,ro $S/cache && exec $W replay $S/empty.toml"
    check 0 "pass"
    run 60 $inside "mount -t tmpfs -o ro none $S/mnt && WARREN_CACHE=$S/mnt exec $W replay $S/empty.toml"
    check 1 "writing the agent into the cache" "Read-only file system" "WARREN_CACHE"
}

row_cache_full() {
    run 60 $inside "mount -t tmpfs -o size=64k none $S/mnt && WARREN_CACHE=$S/mnt exec $W replay $S/empty.toml"
    check 1 "No space left on device" "WARREN_CACHE"
    # Room for the agent and the compiled classes, none for the class archives: runs are slower, not wrong.
    run 300 $inside "mount -t tmpfs -o size=8m none $S/mnt && WARREN_CACHE=$S/mnt exec $W replay $S/empty.toml"
    check 0 "pass"
}

row_out_read_only() {
    run 60 $inside "mount -t tmpfs -o ro none $S/mnt && exec $(fuzz '-E 1' "$S/mnt/out")"
    check 1 "$S/mnt/out" "Read-only file system" "choose another folder with -o"
}

row_out_full() {
    local size
    for size in 16k 64k 128k; do
        run 600 $inside "mount -t tmpfs -o size=$size none $S/mnt && exec $(fuzz '-E 20' "$S/mnt/out")"
        check 1 "No space left on device" "free space or choose another folder with -o"
    done
}

# A canary whose nodes fill the data tmpfs of their slot (2 GiB): said as what it is, and no page in /dev/shm is hit.
row_slot_full() {
    variant full
    sed -i 's|^        node.run();|        Thread filler = new Thread(() -> {\n            try (java.io.OutputStream out = new java.io.FileOutputStream(new File(args[1], "filler"))) {\n                byte[] block = new byte[1 << 20];\n                while (true) {\n                    out.write(block);\n                }\n            } catch (IOException e) {\n                System.out.println("filler: " + e);\n            }\n        });\n        filler.setDaemon(true);\n        filler.start();\n        node.run();|' "$S/targets/full/src/canary/Main.java"
    run 300 "$W" replay "$S/full.toml" --targets "$S/targets" -t 20000
    # A void run is repeated, and the repeat may end before its disk is full.
    check 0 "void: the disk of the nodes' data is full (2048 MiB)" "the run itself went wrong: repeating it"
}

row_tiny_shm() {
    local level
    for level in 1 2; do
        run 120 $inside "mount -t tmpfs -o size=64k none /dev/shm && exec $W replay $S/empty.toml --level $level"
        check 0 "pass"
    done
    run 120 $inside "mount -t tmpfs -o size=64k none /dev/shm && exec $W replay $S/empty.toml --level 3"
    check 1 "No space left on device" "/dev/shm"
}

row_few_files() {
    local n
    for n in 64 24; do
        run 120 sh -c "ulimit -n $n; exec $W replay $S/empty.toml"
        check 0 "pass"
    done
    run 120 sh -c "ulimit -n 10; exec $W replay $S/empty.toml"
    check 1 "Too many open files" "ulimit -n"
}

row_no_tmp() {
    run 120 $inside "mount -t tmpfs -o size=4k none $S/mnt && TMPDIR=$S/mnt exec $W replay $S/empty.toml"
    check 0 "pass"
}

# All processes of Warren in a memory cgroup that is too small for three nodes and a workload (cgroup v1 or v2).
row_out_of_memory() {
    local group
    if [ -d /sys/fs/cgroup/memory ]; then
        group=/sys/fs/cgroup/memory/warren-bad-days
        mkdir -p $group && echo 100M >$group/memory.limit_in_bytes
    else
        group=/sys/fs/cgroup/warren-bad-days
        mkdir -p $group && echo 100M >$group/memory.max
    fi
    run 300 sh -c "echo \$\$ >$group/cgroup.procs; exec $W replay $S/empty.toml"
    check "${OOM_EXIT:-1}" "signal 9 that Warren did not send: memory or tmpfs is short"
    rmdir $group
}

row_hung_workload() {
    variant hang
    sed -i 's|^            if (text == null) {|            if (sessions.get() > 20) {\n                while (true) {\n                    LockSupport.parkNanos(1000000000L);\n                }\n            }\n&|; s|private final AtomicLong sessions|private static final AtomicLong sessions|; s|private static final class Connection|static final class Connection|' "$S/targets/hang/workload/CanaryWorkload.java"
    sed -i 's|sessions.get() > 20|ASKED.incrementAndGet() > 60|; s|^    private static final int PORT = 7401;|&\n    static final AtomicLong ASKED = new AtomicLong();|' "$S/targets/hang/workload/CanaryWorkload.java"
    run 300 "$W" replay "$S/hang.toml" --targets "$S/targets" -t 15000
    check 70 "over its limit of 15000 ms: once more with twice the limit" "1 hang"
}

# The wall clock jumps back by a day every second or so while a campaign runs; limits are by the monotonic clock and hold.
row_clock_set_back() {
    local lib=${LIBFAKETIME:-/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1}
    [ -e "$lib" ] || { printf 'skipped %-28s no libfaketime (LIBFAKETIME=...)\n' "$row"; return; }
    fresh
    echo '+0' >"$S/when"
    (
        for day in 0 1 2 3 4 5 6 7 8 9; do
            sleep 8
            echo "-$((day * 86400))" >"$S/when.new" && mv "$S/when.new" "$S/when"
        done
    ) &
    run 300 env LD_PRELOAD="$lib" FAKETIME_TIMESTAMP_FILE="$S/when" FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 \
        "$W" fuzz canary --no-ui -o "$S/out" -V 30
    kill $! 2>/dev/null
    wait $! 2>/dev/null
    check 0 "ended at -V"
    local seconds
    seconds=$(sed -n 's/.* runs, \([0-9]*\)\.[0-9] s fuzzing.*/\1/p' "$S/said")
    { [ "$seconds" -ge 30 ] && [ "$seconds" -le 90 ]; } || bad "-V 30 ended after $seconds s"
}

# A pseudo-terminal whose other end goes away while a campaign runs.
row_terminal_gone() {
    fresh
    setsid script -qfec "$W fuzz canary -o $S/out -E 1000" /dev/null >"$S/said" 2>&1 </dev/null &
    local terminal=$!
    wait_for 200 test -s "$S/out/default/plot_data" || { bad "no campaign"; return; }
    sleep 3
    local warren
    warren=$(pgrep -f "^$W fuzz")
    kill -9 "$terminal"
    wait_for 60 sh -c "! kill -0 $warren 2>/dev/null" || { bad "still running"; return; }
    wait "$terminal" 2>/dev/null
    [ -s "$S/out/default/fuzzer_stats" ] || { bad "the campaign was not brought to its end"; return; }
    code=0
    echo "ended; fuzzer_stats written" >"$S/said"
    check 0 "ended"
}

row_closed_pipe() {
    fresh
    (
        # shellcheck disable=SC2086
        $(fuzz '-E 2') 2>"$S/said"
        echo $? >"$S/code"
    ) | head -n 1 >/dev/null
    code=$(cat "$S/code")
    echo "ended" >>"$S/said"
    check 0 "ended"
}

row_kill_nine() {
    fresh
    $W fuzz canary --no-ui -o "$S/out" -E 1000 >"$S/said" 2>&1 </dev/null &
    local pid=$!
    at_phase $pid 2 || { bad "phase test never came"; return; }
    kill -9 $pid
    wait $pid 2>/dev/null
    code=$?
    check 137 ""
}

# --- signals in every phase

PHASES=${PHASES:-"set-up learn start held test heal final confirm"}
SIGNALS=${SIGNALS:-"INT TERM HUP"}

row_signals() {
    local phase signal pid began
    variant planted
    # Any election after the first is called a failure: a finding to be confirmed comes soon.
    sed -i 's/^fatal_log = .*/fatal_log = ["LEADING epoch [1-9]"]/' "$S/targets/planted/target.toml"
    for phase in $PHASES; do
        for signal in $SIGNALS; do
            row="signal $signal in $phase"
            fresh
            local cache=$S/cache
            [ "$phase" != set-up ] || { cache=$S/cache-new; rm -rf "$cache"; }
            # The last one's words must not be taken for this one's.
            : >"$S/said"
            WARREN_CACHE=$cache "$W" fuzz planted --targets "$S/targets" --no-ui --snapshot off -o "$S/out" -E 1000 >"$S/said" 2>&1 </dev/null &
            pid=$!
            if ! came $phase $pid; then
                bad "the phase never came"
                kill -9 $pid
                wait $pid 2>/dev/null
                continue
            fi
            began=$(date +%s%N)
            kill -$signal $pid
            wait_for 60 sh -c "! kill -0 $pid 2>/dev/null" || kill -9 $pid
            wait $pid
            code=$?
            case $phase in
            set-up) check 0 "ended in set-up, as asked" ;;
            learn) check 0 "ended before the first sequence was tested: nothing is kept" ;;
            *) check 0 "ended by the user" ;;
            esac
            printf '        %-28s after %d ms\n' '' $((($(date +%s%N) - began) / 1000000))
        done
    done
}

# A copy of the canary of this name for a row to change; NAME.toml is its fault-free sequence.
variant() {
    rm -rf "$S/targets/$1"
    mkdir -p "$S/targets" "$S/dictionaries"
    cp -r targets/canary "$S/targets/$1"
    cp dictionaries/* "$S/dictionaries/"
    sed -i "s/^name = \"canary\"/name = \"$1\"/" "$S/targets/$1/target.toml"
    printf 'version = 1\ntarget = "%s"\n' "$1" >"$S/$1.toml"
}

wait_for() {
    local n=$(($1 * 20))
    shift
    while [ $n -gt 0 ]; do
        "$@" && return 0
        sleep 0.05
        n=$((n - 1))
    done
    return 1
}

# A word of the run page of Warren's present slot (docs/formats.md, section 3), halves apart: "high low".
word() {
    local init
    # The newest: the keeper of the snapshots is a slot too, without a run.
    init=$(pgrep -n -P "$1" -f __slot-init)
    [ -n "$init" ] || return 1
    od -An -t u4 -j $((8 * $2)) -N 8 "/proc/$init/root/dev/shm/run.page" 2>/dev/null | awk '{ print $2, $1 }'
}

at_phase() {
    local end=$((SECONDS + 400)) phase
    while [ $SECONDS -lt $end ] && kill -0 "$1" 2>/dev/null; do
        read -r phase _ < <(word "$1" 2)
        [ "${phase:-x}" != "$2" ] || ! fuzzing || return 0
    done
    return 1
}

# At least one sequence has been tested: before that an end keeps nothing, and says so.
fuzzing() { tail -n 1 "$S/said" | grep -q '^\[[0-9].* seqs [1-9]'; }

came() {
    local phase=$1 pid=$2 end held release
    end=$((SECONDS + 400))
    case $phase in
    set-up) wait_for 100 pgrep -P "$pid" -f javac >/dev/null ;;
    learn) wait_for 300 grep -q '^learning 2/' "$S/said" ;;
    start) at_phase "$pid" 0 ;;
    test) at_phase "$pid" 2 ;;
    heal) at_phase "$pid" 4 ;;
    final) at_phase "$pid" 5 ;;
    confirm) wait_for 400 grep -q 'confirming' "$S/said" ;;
    held)
        while [ $SECONDS -lt $end ] && kill -0 "$pid" 2>/dev/null; do
            read -r _ held < <(word "$pid" 3)
            read -r _ release < <(word "$pid" 4)
            [ "${held:-0}" -le "${release:-0}" ] || ! fuzzing || return 0
        done
        return 1
        ;;
    esac
}

all="no_jdk no_network read_only_cache cache_full out_read_only out_full slot_full tiny_shm few_files no_tmp out_of_memory hung_workload clock_set_back terminal_gone closed_pipe kill_nine signals corrupt_jar"
for row in ${*:-$all}; do
    "row_$row"
done
exit $failed
