#!/usr/bin/env python3
"""kill -9 of Warren, 50 times, spread over the phases of a canary campaign; each time it is resumed and looked at.

    tests/kill50.py [--warren PROGRAM] [--kills N] [--seed S] [--out DIR] [--phases a,b,...] [-- MORE FUZZ ARGUMENTS]

After each kill: within two seconds no process of it and no namespace, and no mount, SysV segment or /dev/shm file that was not
there before. After each resume: no queue entry, crash, hang or finding that was there is missing, no id stands twice, at most one
run is lost, and fuzzer_stats and runs.jsonl agree. Prints a table per phase; exit 1 when anything was wrong.

Warren says where it is by WARREN_TEST_EVENTS (a pipe); this program sends the signal from outside and then reads which phase it
really hit. A thread is held for milliseconds and saving takes no longer: there Warren kills itself at the n-th arrival
(WARREN_TEST_KILL_AT). Phases and points: docs/campaign.md, "Resume".
"""

import argparse
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Phase of the acceptance list -> events that belong to it.
OUTSIDE = {
    "learn": lambda e: e.startswith("learn:"),
    "start": lambda e: e in ("fuzz:start", "fuzz:setup"),
    "test": lambda e: e == "fuzz:test",
    "heal": lambda e: e in ("fuzz:heal", "fuzz:degraded"),
    "final": lambda e: e == "fuzz:final",
    "confirm": lambda e: e.startswith("confirm:"),
}
SAVING = ["run-file", "before-record", "torn", "record", "line", "queue", "checkpoint-written", "checkpoint"]
FINDING = ["owed", "saved-sequence", "finding", "decided"]
# The last two keep a journal of their own: `minimise` is `fuzz --minimize` with a known failure as its seed, `tmin` is the verb with it.
PLAN = ["learn", "start", "held", "test", "heal", "final", "confirm", "saving", "minimise", "tmin"]
OWN = ("minimise", "tmin")
FIVE = Path(__file__).resolve().parent / "tests/e2e/tmin-five.toml"
LIMIT = 600.0


def processes():
    """pid -> (start time, parent) of all that live."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                if stat[0] not in "ZX":
                    found[int(name)] = (stat[19], int(stat[1]))
            except OSError:
                pass
    return found


def family(root):
    """(pid, start time) of a process's descendants, and the namespaces they are in that we are not."""
    alive = processes()
    mine, grown = {root}, True
    while grown:
        more = {p for p, (_, parent) in alive.items() if parent in mine} - mine
        mine |= more
        grown = bool(more)
    members, spaces = set(), set()
    for pid in mine - {root}:
        members.add((pid, alive[pid][0]))
        spaces |= namespaces(pid)
    return members, spaces - namespaces("self")


def namespaces(pid):
    found = set()
    for kind in ("pid", "mnt", "net", "ipc", "uts", "user"):
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
        except OSError:
            pass
    return found


def leftovers(members, spaces, killed):
    """What is there still of these processes and namespaces. `killed`: what has started since belongs to somebody else, for the kernel
    gives a namespace's number again as soon as it is free."""
    alive = processes()
    left = [f"process {pid}" for pid, start in members if alive.get(pid, ("", 0))[0] == start]
    for pid in (p for p, (start, _) in alive.items() if int(start) <= killed):
        left += [f"namespace {n} (process {pid})" for n in namespaces(pid) & spaces]
    return left


def ticks():
    """Now, as processes' start times count."""
    return int(float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK"))


def machine():
    """What must be as before: mounts, SysV objects, /dev/shm."""
    sysv = [f"{kind} {line.split()[1]}" for kind in ("shm", "sem", "msg")
            for line in Path("/proc/sysvipc", kind).read_text().splitlines()[1:]]
    mounts = [line.split(" - ")[0] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return set(sysv) | set(mounts) | {f"/dev/shm/{n}" for n in os.listdir("/dev/shm")}


def visible(root):
    return {f"{sub}/{n}" for sub in ("queue", "crashes", "hangs", "findings") if (root / sub).is_dir()
            for n in os.listdir(root / sub) if not n.startswith(".")}


def run_lines(root):
    path = root / "runs.jsonl"
    return path.read_text().splitlines() if path.exists() else []


class Warren:
    """One start of `warren fuzz`, with its events."""

    def __init__(self, options, resume, kill_at=None, folder="campaign", own=()):
        self.pipe = options.out / "events"
        if not self.pipe.exists():
            os.mkfifo(self.pipe)
        self.events = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)
        environment = dict(os.environ, WARREN_TEST_EVENTS=str(self.pipe))
        if kill_at:
            environment["WARREN_TEST_KILL_AT"] = kill_at
        command = [options.warren, "fuzz", "canary", "-o", str(options.out / folder), "--no-ui", "-s", str(options.seed)]
        command += (["-i", "-"] if resume else []) + list(own) + options.more
        self.log = open(options.out / "log", "ab")
        self.log.write(f"\n== {' '.join(command)} {kill_at or ''}\n".encode())
        self.log.flush()
        self.from_here = self.log.tell()
        self.process = subprocess.Popen(command, env=environment, stdout=self.log, stderr=subprocess.STDOUT)
        self.rest, self.last, self.runs = b"", "", 0
        self.members, self.spaces = set(), set()

    def said(self):
        with open(self.log.name, "rb") as log:
            log.seek(self.from_here)
            return log.read().decode(errors="replace")

    def take(self, wait):
        """The events that came."""
        ready, _, _ = select.select([self.events], [], [], wait)
        if not ready:
            return []
        try:
            data = os.read(self.events, 65536)
        except BlockingIOError:
            data = b""
        if not data:
            # Nobody has it open for writing yet, or any more.
            time.sleep(min(wait, 0.02))
            return []
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            event = line.decode()
            if event == "run":
                self.runs += 1
            elif ":" in event:
                self.last = event
        return [line.decode() for line in lines]

    def remember(self):
        members, spaces = family(self.process.pid)
        self.members |= members
        self.spaces |= spaces

    def close(self):
        self.process.wait()
        while self.take(0):
            pass
        os.close(self.events)
        self.log.close()


def kill_in(warren, phase, dice):
    """Waits for the phase and kills from outside; answers the event that it really hit."""
    belongs = OUTSIDE[phase]
    skip = dice.randrange(3) if phase not in ("learn", "confirm") else 0
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and warren.process.poll() is None:
        before = warren.last
        if not any(belongs(e) for e in warren.take(0.2)) or not belongs(warren.last):
            continue
        if belongs(before):
            continue
        if skip > 0:
            skip -= 1
            continue
        warren.remember()
        time.sleep(dice.uniform(0, 0.15))
        if belongs("learn:x"):
            time.sleep(dice.uniform(0, 1.5))
        warren.remember()
        warren.process.kill()
        warren.close()
        return warren.last
    return None


def kill_itself(warren, point):
    until = time.monotonic() + LIMIT
    seen = 0.0
    while time.monotonic() < until and warren.process.poll() is None:
        warren.take(0.05)
        if time.monotonic() - seen > 0.2:
            warren.remember()
            seen = time.monotonic()
    if warren.process.poll() is None:
        return None
    code = warren.process.returncode
    warren.close()
    return point if code == -signal.SIGKILL else None


def journal_lines(path):
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def tries_of(journal):
    """Numbers of the runs that the journal of a minimisation has."""
    lines = [json.loads(line) for line in journal_lines(journal)[1:]]
    return [line["run"] for line in lines if "run" in line]


def minimise(options, kills, dice, complain):
    """Kills `fuzz --minimize` so many times while it minimises, resumes it each time, then lets it end: it goes on where it was, makes no
    try again and comes to its result. (kills, in progress, left behind)"""
    root = options.out / "minimise" / "default"
    finding = root / "findings/000000"
    journal, result = finding / "minimised.journal.jsonl", finding / "minimised.toml"
    own = ["--minimize", "-E", "1"]
    done, lost, left_behind, known, clean = 0, 0, 0, [], machine()

    def start():
        resume = (root / "state/checkpoint").exists()
        return Warren(options, resume, folder="minimise", own=own + ([] if resume else ["-i", str(FIVE)]))

    def made():
        lines = [json.loads(line) for line in run_lines(root) if line.endswith("}")]
        return [line["run"] for line in lines if line["role"] == "minimise" and line["void"] != "stopped"]

    for _ in range(kills):
        warren = start()
        # At least one more try, but for the first kill: that one may come before the first try is over.
        enough, begun = len(known) + (1 if done else 0), 0
        until = time.monotonic() + LIMIT
        while time.monotonic() < until and warren.process.poll() is None:
            begun += sum(e == "minimise:start" for e in warren.take(0.05))
            if begun and journal.exists() and len(tries_of(journal)) >= enough:
                break
        end = time.monotonic() + dice.uniform(0, 1.0)
        while time.monotonic() < end:
            warren.remember()
            warren.take(0.05)
        if warren.process.poll() is not None:
            complain(f"fuzz --minimize ended by itself with {warren.process.returncode} before it was killed {kills} times: {warren.said()[-400:]}")
            warren.close()
            break
        warren.process.kill()
        warren.close()
        done += 1
        deadline, killed = time.monotonic() + 2.0, ticks()
        while (left := leftovers(warren.members, warren.spaces, killed)) and time.monotonic() < deadline:
            time.sleep(0.05)
        while (more_left := machine() - clean) and time.monotonic() < deadline + 3.0:
            time.sleep(0.05)
        for what in left + sorted(more_left):
            complain(f"kill {done} (minimise): left behind: {what}")
        left_behind += len(left) + len(more_left)
        now = tries_of(journal) if journal.exists() else []
        # Of a try the journal has and the campaign has not, nothing counts: it is made again, under its number.
        counted = made()
        if now[:len(known)] != known or now[:len(counted)] != counted or len(now) > len(counted) + 1:
            complain(f"kill {done} (minimise): tries {known} before, {now} in the journal now, {counted} in runs.jsonl")
        resumed = re.search(r"resuming: (\d+) runs", warren.said())
        in_progress = (int(resumed[1]) if resumed else 0) + warren.runs - len(run_lines(root))
        if not 0 <= in_progress <= 1:
            complain(f"kill {done} (minimise): {in_progress} runs lost")
        lost += in_progress
        known = counted
        print(f"kill {done:3} minimise at {warren.last:18} tries {len(known):3}", flush=True)
    warren, until = start(), time.monotonic() + LIMIT
    while warren.process.poll() is None and time.monotonic() < until:
        warren.take(0.2)
    if warren.process.poll() is None:
        warren.process.kill()
    warren.close()
    counted, faults = made(), result.read_text().count("[[fault]]") if result.exists() else 0
    closed = journal.exists() and b'"closed"' in journal_lines(journal)[-1]
    if warren.process.returncode != 0 or not 0 < faults < 5 or not closed:
        complain(f"fuzz --minimize, let alone, ended with {warren.process.returncode}, {faults} faults, its journal {'closed' if closed else 'open'}")
    elif tries_of(journal) != counted or counted[:len(known)] != known:
        complain(f"tries {tries_of(journal)} in the journal, {counted} in runs.jsonl, {known} at the last kill")
    print(f"fuzz --minimize, let alone: {faults} faults after {len(counted)} tries in all", flush=True)
    return done, lost, left_behind


def tmin(options, kills, dice, complain):
    """Kills `warren tmin` so many times, each after at least one more run; then lets it end. (kills, left behind)"""
    out = options.out / "min.toml"
    journal = options.out / "min.journal.jsonl"
    command = [options.warren, "tmin", "-i", str(FIVE), "-o", str(out)]
    log = open(options.out / "tmin.log", "ab")
    done, left_behind, known = 0, 0, []
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        members, spaces = set(), set()
        until = time.monotonic() + LIMIT
        while len(journal_lines(journal)) <= max(1, len(known)) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        end = time.monotonic() + dice.uniform(0, 1.0)
        while time.monotonic() < end:
            more = family(process.pid)
            members, spaces = members | more[0], spaces | more[1]
            time.sleep(0.05)
        if process.poll() is not None:
            complain(f"tmin ended by itself with {process.returncode} before it was killed {kills} times")
            break
        process.kill()
        process.wait()
        done += 1
        deadline, killed = time.monotonic() + 2.0, ticks()
        while (left := leftovers(members, spaces, killed)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for what in left:
            complain(f"kill {done} (tmin): left behind: {what}")
        left_behind += len(left)
        now = journal_lines(journal)
        if now[:len(known)] != known:
            complain(f"kill {done} (tmin): the journal lost runs: {len(known)} lines before, {len(now)} now")
        known = now
        print(f"kill {done:3} tmin     at tmin             runs {len(known) - 1:4}", flush=True)
    code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    faults = out.read_text().count("[[fault]]") if out.exists() else 0
    if code != 0 or not 0 < faults < 5 or journal_lines(journal)[:len(known)] != known:
        complain(f"tmin, let alone, ended with {code} and {faults} faults")
    print(f"tmin, let alone: {faults} faults after {len(journal_lines(journal)) - 1} runs in all", flush=True)
    return done, left_behind


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--warren", default=str(here / "target/release/warren"))
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--phases", default=",".join(PLAN))
    parser.add_argument("more", nargs="*")
    options = parser.parse_args()
    options.out = options.out or Path(tempfile.mkdtemp(prefix="kill50."))
    options.out.mkdir(parents=True, exist_ok=True)
    root = options.out / "campaign" / "default"
    dice = random.Random(options.seed)
    phases = options.phases.split(",")
    each, more = divmod(options.kills, len(phases))
    wanted = {p: each + (i < more) for i, p in enumerate(phases)}
    plan = [p for p in phases if p not in OWN for _ in range(wanted[p])]
    table = {p: [0, 0, 0] for p in phases}
    wrong = []
    saving = 0

    def complain(text):
        wrong.append(text)
        print(f"    WRONG: {text}", flush=True)

    clean = machine()
    before, runs_before = set(), 0
    pending = None
    print(f"{options.kills} kills, everything in {options.out}", flush=True)
    number, tries = 0, 0
    while number < len(plan) and tries < 3 * len(plan):
        phase, tries = plan[number], tries + 1
        if phase == "held":
            point, kill_at = "fuzz:held", f"fuzz:held:{dice.randint(1, 4)}"
        elif phase == "saving":
            points = SAVING + FINDING
            point = points[saving % len(SAVING)] if saving % 3 else "record"
            kill_at = f"{point}:{dice.randint(1, 5) if point not in ('checkpoint', 'checkpoint-written') else 1}"
            saving += 1
        else:
            point = kill_at = None
        warren = Warren(options, (root / "state/checkpoint").exists(), kill_at)
        resumed_runs = runs_before
        hit = kill_itself(warren, point) if kill_at else kill_in(warren, phase, dice)
        said = warren.said()
        if hit is None:
            if warren.process.poll() is None:
                warren.process.kill()
                warren.close()
            complain(f"kill {number + 1} ({phase}): it was not reached; Warren said: {said[-400:]}")
            break
        deadline, killed = time.monotonic() + 2.0, ticks()
        while (left := leftovers(warren.members, warren.spaces, killed)) and time.monotonic() < deadline:
            time.sleep(0.05)
        # Other programs of the machine come and go: what is ours would stay.
        while (more_left := machine() - clean) and time.monotonic() < deadline + 3.0:
            time.sleep(0.05)
        for what in left + sorted(more_left):
            complain(f"kill {number + 1} ({phase} {hit}): left behind: {what}")
        # What this start found, and whether it had lost anything of the last kill.
        match = re.search(r"resuming: (\d+) runs", said)
        if match:
            resumed_runs = int(match[1])
            if pending is not None and not pending[0] - 1 <= resumed_runs <= pending[0]:
                complain(f"kill {number} lost more than one run: {pending[0]} begun, {resumed_runs} resumed")
            if resumed_runs < pending[1] if pending else False:
                complain(f"kill {number} lost a run that had its line: {pending[1]} lines, {resumed_runs} resumed")
        elif pending is not None:
            complain(f"kill {number + 1}: it did not resume: {said[-400:]}")
        now = visible(root)
        for name in sorted(before - now):
            complain(f"kill {number + 1}: {name} is lost")
        for sub in ("queue", "crashes", "hangs"):
            ids = [n.split(",")[0] for n in now if n.startswith(sub + "/id:")]
            if len(ids) != len(set(ids)):
                complain(f"kill {number + 1}: an id stands twice in {sub}/")
        lines = run_lines(root)
        for i, line in enumerate(lines):
            try:
                json.loads(line)
            except ValueError:
                if i + 1 < len(lines):
                    complain(f"kill {number + 1}: line {i + 1} of runs.jsonl is torn")
        lost = resumed_runs + warren.runs - len(lines)
        before, runs_before, pending = now, len(lines), (resumed_runs + warren.runs, len(lines))
        really = phase if kill_at or OUTSIDE[phase](hit) else next(
            (p for p, f in OUTSIDE.items() if f(hit)), phase)
        if really in table and really != phase:
            print(f"         (aimed at {phase}, hit {hit})", flush=True)
        row = table.setdefault(really, [0, 0, 0])
        row[0] += 1
        row[1] += max(0, lost)
        row[2] += len(left) + len(more_left)
        if really == phase:
            number += 1
        print(f"kill {sum(r[0] for r in table.values()):3} {phase:8} at {hit:18} runs {len(lines):4} "
              f"queue {sum(n.startswith('queue/') for n in now):4} findings {sum(n.startswith('findings/') for n in now)}", flush=True)
    # One more start, ended in the normal way, to look at the figures.
    if plan and not wrong:
        warren = Warren(options, True)
        time.sleep(8)
        warren.process.send_signal(signal.SIGINT)
        warren.close()
        stats = dict(re.findall(r"^(\w+)\s*: (.*)$", (root / "fuzzer_stats").read_text(), re.M))
        ended = [l for l in map(json.loads, run_lines(root)) if l["void"] != "stopped"]
        fuzzed = sum(1 for l in ended if l["kept"] is not None)
        if int(stats["execs_done"]) != len(ended):
            complain(f"execs_done {stats['execs_done']}, {len(ended)} lines in runs.jsonl")
        if int(stats["corpus_count"]) != len(os.listdir(root / "queue")) or int(stats["corpus_found"]) != fuzzed:
            complain(f"corpus_count {stats['corpus_count']}, {len(os.listdir(root / 'queue'))} files in queue/, {fuzzed} lines say kept")
        for name in sorted(before - visible(root)):
            complain(f"the last start lost {name}")
    if "minimise" in wanted:
        table["minimise"] = list(minimise(options, wanted["minimise"], dice, complain))
    if "tmin" in wanted:
        kills, left = tmin(options, wanted["tmin"], dice, complain)
        table["tmin"] = [kills, 0, left]
    print("\nphase     kills  in progress  left behind")
    for phase, (kills, lost, left) in table.items():
        print(f"{phase:9} {kills:5} {lost:12} {left:12}")
    total = sum(r[0] for r in table.values())
    print(f"{'all':9} {total:5}    runs in progress at the kill are those lost")
    short = [p for p in phases if table[p][0] < min(3, each)]
    if short:
        complain(f"too few kills in {', '.join(short)}")
    print("\n".join(["", "WRONG:"] + wrong) if wrong else "nothing was lost, nothing was left behind")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
