"""./dev bench: measures the node and the peers in the same run, round robin, and prints one TARGET line a row.

The exit code says whether everything ran, not whether the targets hold; with --quick also whether every row that is
there gave a number.
"""
import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time

from exec_rows import Exec
from mesh_rows import Mesh
from speed_table import LINES, lines_called

PEERS = ("zmq", "nats", "erlang", "grpc", "execfloor", "boost", "caf")


def peer_list(text):
    names = [name for name in text.split(",") if name and name != "floor"]
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(PEERS)}")
    return names


def table_lines(name):
    lines = lines_called(name)
    if not lines:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(line.name for line in LINES)}")
    return lines


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description="Measure the node beside its peers.")
    parser.add_argument("what", nargs="?", choices=("mesh", "exec"), help="default: both")
    parser.add_argument("--rounds", type=int, default=None, help="interleaved rounds (default 3; quick 1)")
    parser.add_argument("--json", metavar="FILE", help="write every row and run to FILE")
    parser.add_argument("--peers", type=peer_list, help="only these, comma-separated; the floor always runs")
    parser.add_argument("--rows", type=re.compile, default=re.compile(""), metavar="PATTERN",
                        help="of the mesh only the rows whose name the pattern is found in")
    parser.add_argument("--only", type=table_lines, metavar="NAME",
                        help="of the mesh only this line of the speed table, or all that begin so: N5-chain, N2-tls, EX-79")
    parser.add_argument("--quick", action="store_true",
                        help="one short round of ours and the floor, and of --peers: does it all run?")
    parser.add_argument("--wait-quiet", type=float, default=0, metavar="S",
                        help="before each measurement wait up to S seconds for a machine that does nothing else")
    parser.add_argument("--build", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only and options.what == "exec":
        parser.error("--only names lines of the mesh")
    if options.only:
        options.what = "mesh"
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{len(os.sched_getaffinity(0))} cores ({model}), Linux {platform.release().split('-')[0]}"


def main():
    options = arguments()
    print(f"machine: {machine()}; everything on loopback of this one machine")
    written, failed = {"machine": machine()}, False
    base = os.path.join(options.build, "tests", "bench", "run")
    os.makedirs(base, exist_ok=True)
    for name, kind in (("mesh", Mesh), ("exec", Exec)):
        if options.what not in (None, name):
            continue
        began = time.monotonic()
        report = kind(options.build, base, options).run()
        report.facts["took_s"] = round(time.monotonic() - began, 1)
        report.print_targets()
        print(f"{name}: took {report.facts['took_s']:.0f} s", flush=True)
        if options.json:
            with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
                report.write(file.name)
                written[name] = json.load(file)
        if options.quick:
            failed = failed or any(gave_nothing(target) for target in report.targets)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(written, file, indent=1)
            file.write("\n")
    return 1 if failed else 0


def gave_nothing(target):
    return (target["got"] is None or target["verdict"].startswith("not measured")
            or target["want"].startswith("a number") and target["verdict"] != "holds")


if __name__ == "__main__":
    sys.exit(main())
