#!/usr/bin/env python3
"""How many sequences an hour `warren fuzz` tests with so many slots side by side, as a Markdown table and a plot.

    tests/side_by_side.py TARGET [--seconds 150] [--seed 1] [--slots 1,2,3] [--svg FILE] [--keep FOLDER]

One campaign each after the other, from an empty folder; `2/cold` is -j 2 with --snapshot off, `2/whole` -j 2 with --in-a-row 1. For an
idle machine, after `cargo build --release`; too long for CI. Exit 0 when all campaigns ended well."""
import argparse, json, os, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WARREN = os.path.join(ROOT, "target/release/warren")
FLAGS = {"cold": ["--snapshot", "off"], "whole": ["--in-a-row", "1"], "": []}
WIDTH, HEIGHT, BAR = 640, 300, 60


def campaign(args, name, folder):
    slots, _, how = name.partition("/")
    out = os.path.join(folder, name.replace("/", "-"))
    subprocess.run([WARREN, "fuzz", args.target, "-o", out, "-s", str(args.seed), "-V", str(args.seconds), "-j", slots,
                    "--no-ui", *FLAGS[how]], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(l) for l in open(out + "/default/runs.jsonl")]
    fuzzing = [l for l in lines if l["role"] != "learning"]
    tested = [l for l in fuzzing if l["role"] == "fuzz" and not l["void"]]
    seconds = max(l["at_ms"] for l in fuzzing) / 1000
    spent = sum(l["spent_ms"] for l in fuzzing) / 1000
    with open(out + "/default/fuzzer_stats") as f:
        took = next(l.split(":")[1].strip() for l in f if l.startswith("side_by_side "))
    return {
        "name": name + (f" ({took})" if slots == "auto" else ""),
        "sequences": len(tested),
        "seconds": seconds,
        "hour": 3600 * len(tested) / seconds,
        "wall": sum(l["times_ms"]["total"] for l in tested) / 1000 / len(tested),
        "cpu": spent / len(tested),
        "share": 100 * spent / seconds / os.cpu_count(),
        "prefix": 100 * sum(l["from_prefix"] is not None for l in tested) / len(tested),
        "full": 100 * sum(l["reason"] is None for l in tested) / len(tested),
    }


def table(rows):
    text = "| -j | sequences | seconds | an hour | mean wall of one, s | CPU s of one | share of CPU | from a prefix | injected in full |\n"
    text += "|---|---|---|---|---|---|---|---|---|\n"
    for r in rows:
        text += (f"| `{r['name']}` | {r['sequences']} | {r['seconds']:.0f} | {r['hour']:.0f} | {r['wall']:.1f} | {r['cpu']:.1f} | "
                 f"{r['share']:.0f} % | {r['prefix']:.0f} % | {r['full']:.0f} % |\n")
    return text


def svg(rows):
    """Bars: sequences an hour. The line: share of CPU, 100 % at the top."""
    most = max(r["hour"] for r in rows) * 1.15
    step = (WIDTH - 60) / len(rows)
    low = HEIGHT - 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    points = []
    for i, r in enumerate(rows):
        x = 40 + i * step + step / 2
        top = low - (low - 30) * r["hour"] / most
        parts.append(f'<rect x="{x - BAR / 2:.0f}" y="{top:.0f}" width="{BAR}" height="{low - top:.0f}" fill="#4477aa"/>')
        parts.append(f'<text x="{x:.0f}" y="{top - 5:.0f}" text-anchor="middle">{r["hour"]:.0f}</text>')
        parts.append(f'<text x="{x:.0f}" y="{low + 16}" text-anchor="middle">-j {r["name"]}</text>')
        points.append(f'{x:.0f},{low - (low - 30) * min(r["share"], 100) / 100:.0f}')
    parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="#cc6677" stroke-width="2"/>')
    parts.append(f'<line x1="30" y1="{low}" x2="{WIDTH - 20}" y2="{low}" stroke="black"/>')
    parts.append(f'<text x="30" y="16">bars: sequences an hour; line: share of CPU (top: 100 %)</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("target")
    p.add_argument("--seconds", type=int, default=150)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--slots", default="1,2,3,2/whole,2/cold")
    p.add_argument("--svg")
    p.add_argument("--keep", help="write the campaigns here instead of a scratch folder")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or scratch
        os.makedirs(folder, exist_ok=True)
        rows = []
        for name in args.slots.split(","):
            rows.append(campaign(args, name, folder))
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr)
    print(table(rows), end="")
    if args.svg:
        with open(args.svg, "w") as f:
            f.write(svg(rows))


main()
