"""Reads what `strace -ff -o FOLDER/trace` wrote and prints the system calls of some programs, one a line.

  trace_syscalls.py FOLDER program NAME...   what processes that run a program of one of these names called
  trace_syscalls.py FOLDER runtime NAME...   what a container runtime called between the seccomp filter and the execve
                                             of such a program, in the thread that calls it

Calls whose first arguments matter for a profile come with them: "socket AF_INET".
"""
import os
import re
import sys

CALL = re.compile(r"(\w+)\((.*)")
CHILD = re.compile(r"^(?:clone|clone3|fork|vfork)\(.*\) = (\d+)$")
PROGRAM = re.compile(r'^execve\("([^"]*)".* = 0$')
FILTER = re.compile(r"(seccomp\(SECCOMP_SET_MODE_FILTER|prctl\(PR_SET_SECCOMP).* = 0$")
DETAILED = {"socket": 0, "prctl": 0, "ioctl": 1, "socketpair": 0, "personality": 0}


def read(folder):
    """{pid: lines} of every thread."""
    traces = {}
    for file in os.listdir(folder):
        stem, _, pid = file.rpartition(".")
        if stem == "trace" and pid.isdigit():
            with open(os.path.join(folder, file), encoding="utf-8", errors="replace") as lines:
                traces[int(pid)] = [line.rstrip("\n") for line in lines]
    return traces


def parents(traces):
    """{pid: (the thread that made it, at which of its lines)}"""
    return {int(found.group(1)): (pid, number) for pid, lines in traces.items() for number, line in enumerate(lines)
            for found in [CHILD.match(line)] if found}


def program_at(traces, made_by, pid, number):
    """The name of what a thread runs at that line; "" where it began before the trace."""
    while True:
        for line in reversed(traces.get(pid, [])[:number]):
            found = PROGRAM.match(line)
            if found:
                return os.path.basename(found.group(1))
        if pid not in made_by:
            return ""
        pid, number = made_by[pid]


def described(line):
    found = CALL.match(line)
    if not found:
        return None
    name, arguments = found.groups()
    if name not in DETAILED:
        return name
    parts = re.split(r", |\)", arguments)
    return f"{name} {parts[DETAILED[name]]}"


def calls_of_programs(traces, names):
    made_by = parents(traces)
    calls = set()
    for pid, lines in traces.items():
        running = program_at(traces, made_by, pid, 0)
        for line in lines:
            found = PROGRAM.match(line)
            if found:
                running = os.path.basename(found.group(1))
            if running in names:
                calls.add(described(line))
    return calls - {None}


def calls_of_runtime(traces, names):
    calls = set()
    for lines in traces.values():
        last = next((n for n, line in enumerate(lines) if (found := PROGRAM.match(line)) and
                     os.path.basename(found.group(1)) in names), None)
        filters = [n for n, line in enumerate(lines[:last]) if FILTER.match(line)]
        if last is not None and filters:
            calls |= {described(line) for line in lines[filters[-1] + 1:last + 1]}
    return calls - {None}


def main(folder, kind, *names):
    traces = read(folder)
    calls = {"program": calls_of_programs, "runtime": calls_of_runtime}[kind](traces, set(names))
    if not calls:
        sys.exit("trace_syscalls: the trace holds nothing of " + ", ".join(names))
    print("\n".join(sorted(calls)))


if __name__ == "__main__":
    main(*sys.argv[1:])
