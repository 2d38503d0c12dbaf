#!/usr/bin/env python3
"""The markdown tables of docs/performance.md, out of what `./dev bench … --json FILE` wrote.

    tests/bench/runner/tables.py FILE

Medians over the rounds. A table or a column that FILE has nothing of is left out, a single missing cell is empty.
"""
import json
import sys

COLUMNS = ("floor", "direct", "execfloor", "zmq", "nats", "erlang", "grpc", "boost", "caf")
TITLES = {"zmq": "ZeroMQ", "nats": "NATS", "erlang": "Erlang", "grpc": "gRPC", "boost": "Boost", "caf": "CAF"}
LIBRARIES = ("erlang", "boost", "caf")
TRANSPORTS = (("tls", "TLS"), ("plain", "plain"))


def short(value):
    """9,876 becomes 9.9 k."""
    for least, unit, name in ((999500, 1e6, " M"), (1000, 1e3, " k")):
        if value >= least:
            scaled = value / unit
            return f"{scaled:.{2 if scaled < 1.995 and unit == 1e6 else 1 if scaled < 9.95 else 0}f}{name}"
    return f"{value:.0f}"


def seconds(value):
    return f"{value:,.{2 if value < 0.995 else 1 if value < 9.95 else 0}f}"


def rate_and_cpu(median):
    if not median or median.get("rate") is None:
        return ""
    cpu = median.get("cpu_per_million")
    return short(median["rate"]) + (f" ({seconds(cpu)})" if cpu is not None else "")


def latencies(median):
    if not median or median.get("p50_us") is None:
        return ""
    return f"{seconds(median['p50_us'])} / {seconds(median['p99_us'])}"


def handshakes(median):
    """A second, and CPU milliseconds of both sides each."""
    if not median or median.get("rate") is None:
        return ""
    return f"{median['rate']:,.0f}, {seconds(median['cpu_per_million'] / 1000)}"


def title(contestant):
    return TITLES.get(contestant, contestant.removeprefix("zlink "))


def contestants(rows):
    """Ours in the order of the run, then the others."""
    present = [name for row in rows for name in row["median"]]
    ours = [name for name in dict.fromkeys(present) if name.startswith("zlink")]
    return ours + [name for name in COLUMNS if name in present]


def print_rows(head, rows, cell):
    """`rows`: (text, row of the file)."""
    rows = [(text, row) for text, row in rows if row]
    if not rows:
        return
    columns = [name for name in contestants([row for _, row in rows])
               if any(cell(row["median"].get(name)) for _, row in rows)]
    if not columns:
        return
    print("\n| " + " | ".join([head, *map(title, columns)]) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for text, row in rows:
        print("| " + " | ".join([text, *(cell(row["median"].get(name)) for name in columns)]) + " |")


def print_targets(head, targets):
    if targets:
        print(f"\n| {head} | want | got | |\n|---|---|---|---|")
    for target in targets:
        print(f"| {target['name'].removeprefix('exec.')} | {target['want']} | {target['got'] or ''} | {target['verdict']} |")


def request_rows(rows):
    loads = (("1", "1 outstanding"), ("256", "256"), ("256.default_limits", "256, default limits"), ("1024", "1,024"),
             ("64x16", "64 x 16"))
    for key, name in TRANSPORTS:
        for load, text in loads:
            yield f"{name}, {text}", rows.get(f"mesh.request.64B.{key}.{load}")
    yield "TLS, 256, by a third node", rows.get("mesh.chain.64B.tls.256")


def one_way_rows(rows):
    for key, name in TRANSPORTS:
        for size in ("64 B", "1 KiB", "64 KiB"):
            yield f"{name}, {size}", rows.get(f"mesh.one_way.{size.replace(' ', '')}.{key}")


def direct_rows(rows):
    for size, text in (("1KiB", "1,024 B"), ("4KiB", "4,096 B")):
        for load, outstanding in (("serial", 1), ("window", 100), ("saturation", 1024)):
            yield f"{text}, {load} ({outstanding:,})", rows.get(f"mesh.direct.{size}.tls.{outstanding}")


def print_idle(facts):
    idle = [(name, facts.get(f"idle.{key}")) for key, name in TRANSPORTS]
    idle = [(name, one) for name, one in idle if one]
    if idle:
        print("\n| idle node, linked | CPU | wake-ups a second | resident |\n|---|---|---|---|")
    for name, one in idle:
        print(f"| {name} | {one['cores']:.3%} of a core | {one['wake_ups_per_s']:.1f} | "
              f"{one['resident_bytes'] / 2**20:.1f} MiB |")


def print_mesh(part):
    rows, facts = {row["row"]: row for row in part["rows"]}, part["facts"]
    nodes = [f"{name} {facts[f'nodes.{key}'].get('cipher') or ''}".strip() + ", max_queued_application_jobs "
             f"{facts[f'nodes.{key}']['max_queued_application_jobs']:,}"
             for key, name in TRANSPORTS if f"nodes.{key}" in facts]
    print(f"\n*mesh*: {'; '.join(nodes) or 'no nodes'}")
    print_targets("TARGET", [one for one in part["targets"] if not one["name"].startswith("mesh.")])
    print_rows("requests/s (CPU s/M)", request_rows(rows), rate_and_cpu)
    print_rows("p50 / p99, us", request_rows(rows), latencies)
    print_rows("one-way messages/s (CPU s/M)", one_way_rows(rows), rate_and_cpu)
    print_rows("TLS requests/s (CPU s/M)", direct_rows(rows), rate_and_cpu)
    print_rows("a second, CPU ms of both sides", (
        ("full mutual handshakes", rows.get("mesh.handshake.full.tls")),
        ("resumed handshakes (the peers: full ones)", rows.get("mesh.handshake.resumed.tls"))), handshakes)
    print_idle(facts)


def exec_line(row, target):
    median = row["median"]
    ours = [name for name in contestants([row]) if name.startswith("zlink") and rate_and_cpu(median[name])]
    mine = "; ".join((f"{name.removeprefix('zlink ')} " if number else "") + rate_and_cpu(median[name])
                     for number, name in enumerate(ours))
    rated = [(median[name]["rate"], name) for name in LIBRARIES if median.get(name, {}).get("rate")]
    best = max(rated)[1] if rated else None
    library = f"{title(best)} {rate_and_cpu(median[best])}" if best else ""
    return (f"| {row['row'].removeprefix('exec.')}, {row['unit']} | {mine} | {rate_and_cpu(median.get('execfloor'))} "
            f"| {library} | {target.get('want', '')} | {target.get('verdict', '')} |")


def print_exec(part):
    targets = {target["name"]: target for target in part["targets"]}
    if part["rows"]:
        print("\n| exec | ours | execfloor | best library | target | |\n|---|---|---|---|---|---|")
    for row in part["rows"]:
        print(exec_line(row, targets.pop(row["row"], {})))
    print_targets("exec", list(targets.values()))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            written = json.load(file)
    except (OSError, ValueError) as why:
        sys.exit(f"tables.py: {sys.argv[1]}: {why}")
    print(written["machine"])
    for name, part_printer in (("mesh", print_mesh), ("exec", print_exec)):
        if name in written:
            part_printer(written[name])


if __name__ == "__main__":
    main()
