#!/usr/bin/env python3
"""What a snapshot must not change, and must not leave behind. Too long for CI; run by hand after `cargo build --release`.

    tests/snapshots.py agree TARGET [--runs 90] [--count 50] [--seed 1] [--keep DIR]
        a campaign with snapshots, then its kept sequences once from their snapshot and once cold: same outcome, same `injected k of n`? Those that
        disagree are replayed five times each way, and kept in DIR
    tests/snapshots.py prefix TARGET [--runs 90] [--count 50] [--seed 1] [--keep DIR]
        the same, once with all faults in one run and once from a prefix snapshot (after the faults before its first reboot, at most all but the last)
    tests/snapshots.py restores TARGET [--count 1000]
        so many fault-free runs, each restored: processes, mounts, namespaces, SysV segments, /dev/shm, memory, disk, and the time of a restore; before and
        after Warren, and of Warren itself after its first runs and before it ends

Exit 0 when what docs/snapshots.md promises holds, else 1. Kills nothing it did not start."""
import argparse, collections, glob, os, re, shutil, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WARREN = os.path.join(ROOT, "target/release/warren")
RUN = re.compile(r"^run \d+ of \d+: (.*), injected (\d+ of \d+),")
SLOT = re.compile(r"^  times: slot (\d+) ms")


def outcomes(files, flags):
    """Per file: (outcome, injected, started cold, from a prefix), of the last of the replays of each."""
    return {file: runs[-1] for file, runs in replays(files, flags).items()}


def replays(files, flags):
    """Per file, of each of its replays: (outcome, injected, started cold, from a prefix)."""
    out = subprocess.run([WARREN, "replay", *files, *flags], cwd=ROOT, capture_output=True, text=True)
    if out.returncode not in (0, 70, 77):
        sys.exit(f"warren replay ended with {out.returncode}:\n{out.stderr}")
    seen, at = {}, None
    for line in out.stdout.splitlines():
        name = line.split(": ")[0] if not line.startswith(" ") else ""
        at = name if name in files else at
        run = RUN.match(line)
        if run and at:
            seen.setdefault(at, []).append([run.group(1), run.group(2), False, False])
        elif "warning: started cold" in line and at in seen:
            seen[at][-1][2] = True
        elif "  begun where another run was dumped" in line and at in seen:
            seen[at][-1][3] = True
    return seen


def agree(args):
    return both_ways(args, "cold", ["--snapshot", "off"])


def prefix(args):
    return both_ways(args, "from a prefix", ["--snapshot", "require", "--prefix"])


def both_ways(args, name, flags):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        subprocess.run([WARREN, "fuzz", args.target, "-o", out, "-s", str(args.seed), "-E", str(args.runs), "--no-ui",
                        "--snapshot", "require", "--cold-share", "0"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        entries = sorted(glob.glob(out + "/default/queue/id:*"))
        least = 2 if "--prefix" in flags else 1
        entries = [e for e in entries if open(e).read().count("[[fault]]") >= least and 'start = "snapshot-' in open(e).read()]
        entries = entries[: args.count]
        whole = outcomes(entries, ["--snapshot", "require"])
        other = outcomes(entries, flags)
        same, shared, differ = 0, 0, []
        for e in entries:
            w, o = whole.get(e), other.get(e)
            if w is None or o is None or w[2] or o[2] != (name == "cold"):
                sys.exit(f"{e}: not run as asked: {w} {o}")
            shared += o[3]
            if w[:2] == o[:2]:
                same += 1
            else:
                differ.append(e)
                print(f"{os.path.basename(e)}: from a snapshot {w[0]}, {w[1]}; {name} {o[0]}, {o[1]}")
        print(f"{same} of {len(entries)} sequences: same outcome and same `injected k of n` both ways")
        five_times(differ, name, flags, args.keep)
        if least == 2:
            print(f"{shared} of the second ones began from a prefix snapshot")
        if len(entries) < args.count:
            print(f"{len(entries)} sequences are there, {args.count} were wanted: more --runs")
        return len(entries) == args.count and same * 10 >= len(entries) * 9


def five_times(files, name, flags, keep):
    """Chance or not: those that differed, five times each way."""
    if not files:
        return
    if keep:
        os.makedirs(keep, exist_ok=True)
        for file in files:
            shutil.copy(file, keep)
    ways = [("from a snapshot", ["--snapshot", "require"]), (name, flags)]
    seen = [(way, replays(files, [*f, "-n", "5"])) for way, f in ways]
    for file in files:
        print(os.path.basename(file))
        for way, runs in seen:
            tally = collections.Counter(f"{r[0]}, {r[1]}" for r in runs.get(file, []))
            print(f"  {way}: " + "; ".join(f"{n} x {what}" for what, n in tally.most_common()))


def left():
    """What a leak would show in."""
    def count(command):
        return len(subprocess.run(command, shell=True, capture_output=True, text=True).stdout.split("\n")) - 1
    cache = os.environ.get("WARREN_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "warren")
    free = [l for l in open("/proc/meminfo") if l.startswith("MemAvailable")][0].split()[1]
    return {
        "processes": count("ps --ppid 2 -p 2 --deselect -o pid="),  # without those of the kernel
        "mounts": count("cat /proc/mounts"),
        "namespaces": count("lsns -n -o NS 2>/dev/null"),
        "SysV segments": count("ipcs -m | tail -n +4 | grep ."),
        "/dev/shm files": count("ls /dev/shm"),
        "files in the cache": count(f"find '{cache}' -type f"),
        "files in the temporary folder": count(f"ls -A '{tempfile.gettempdir()}'"),
        "MiB free": int(free) // 1024,
        "MiB of disk free": shutil.disk_usage(tempfile.gettempdir()).free >> 20,
    }


def inside(pid):
    """The same of a Warren that goes on: what it holds between two runs."""
    tree, found = [pid], [pid]
    while tree:
        parent = tree.pop()
        for task in glob.glob(f"/proc/{parent}/task/*/children"):
            try:
                children = [int(c) for c in open(task).read().split()]
            except OSError:
                continue  # it has ended
            tree += children
            found += children
    used = 0
    for p in found:
        try:
            if b"__slot-init" in open(f"/proc/{p}/cmdline", "rb").read():
                memory = os.statvfs(f"/proc/{p}/root/mnt")
                used += (memory.f_blocks - memory.f_bfree) * memory.f_frsize >> 20
        except OSError:
            continue
    status = dict(l.split(":", 1) for l in open(f"/proc/{pid}/status"))
    return {
        "processes of Warren": len(found),
        "its threads": int(status.get("Threads", 0)),
        "its open files": len(os.listdir(f"/proc/{pid}/fd")),
        "MiB of its own": int(status.get("VmRSS", "0").split()[0]) >> 10,
        "MiB in slots": used,
    }


def smallest(samples):
    """Of each figure: a slot that is just being made or closed is no leak."""
    return {key: min(s[key] for s in samples) for key in samples[0]} if samples else {}


# What a figure in MiB may have grown by: images of a snapshot that is made anew, its logs. What is free of the whole machine judges nothing: others use it too.
SLACK = {"MiB of its own": 32, "MiB in slots": 64}


def grew(key, then, now):
    return not key.endswith("free") and now - then > SLACK.get(key, 0)


def restores(args):
    if args.count < 40:
        sys.exit("--count: 40 or more, so that first and last runs are not the same")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "empty.toml")
        with open(file, "w") as f:
            f.write(f'version = 1\ntarget = "{args.target}"\nstart = "snapshot-1"\n')
        before, times = left(), []
        child = subprocess.Popen([WARREN, "replay", file, "-n", str(args.count), "--snapshot", "require"], cwd=ROOT,
                                 stdout=subprocess.PIPE, text=True)
        first_runs, last_runs, wrong = [], [], 0
        for line in child.stdout:
            slot = SLOT.match(line)
            if slot:
                times.append(int(slot.group(1)))
                if 5 < len(times) <= 20:
                    first_runs.append(inside(child.pid))
                elif args.count - 15 <= len(times) < args.count:
                    last_runs.append(inside(child.pid))
            if "started cold" in line or "void" in line:
                wrong += 1
                print(line.rstrip())
        child.wait()
        time.sleep(1)
        after = left()
        part = max(len(times) // 10, 1)
        first, last = sorted(times[:part])[part // 2], sorted(times[-part:])[part // 2]
        print(f"{len(times)} runs, exit {child.returncode}; slot and restore: first tenth {first} ms, last tenth {last} ms (medians)")
        begun, ending = smallest(first_runs), smallest(last_runs)
        for key in before:
            print(f"  {key}: before Warren {before[key]}, after it {after[key]}")
        for key in begun:
            print(f"  {key}: after its first runs {begun[key]}, before it ends {ending.get(key)}")
        leaks = [k for k in before if grew(k, before[k], after[k])] + [k for k in begun if k not in ending or grew(k, begun[k], ending[k])]
        print("leaked: " + ", ".join(leaks) if leaks else "nothing leaked")
        if wrong:
            print(f"{wrong} runs were void or started cold")
        return len(times) == args.count and child.returncode == 0 and not leaks and not wrong and last <= 1.5 * first


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = p.add_subparsers(dest="verb", required=True)
    for name in ("agree", "prefix"):
        a = verbs.add_parser(name)
        a.add_argument("target")
        a.add_argument("--runs", type=int, default=90)
        a.add_argument("--count", type=int, default=50)
        a.add_argument("--seed", type=int, default=1)
        a.add_argument("--keep")
    r = verbs.add_parser("restores")
    r.add_argument("target")
    r.add_argument("--count", type=int, default=1000)
    args = p.parse_args()
    sys.exit(0 if {"agree": agree, "prefix": prefix, "restores": restores}[args.verb](args) else 1)


main()
