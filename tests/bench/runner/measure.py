"""What the runner knows of the machine and of one measurement: processes, CPU time, the other load, medians."""
import json
import os
import signal
import socket
import statistics
import subprocess
import time

TICK_S = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """A run that gave no number; the row says so."""


def busy_seconds():
    """CPU time that all cores have spent on anything but idling."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICK_S


def cpu_seconds(pid):
    """Of one process, exact; 0 where it is gone."""
    try:
        return time.clock_gettime(((~pid) << 3) | 2)
    except OSError:
        return 0.0


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def wake_ups(pid):
    """How often the process's threads have gone to sleep by themselves."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
    return total


class Background:
    """Cores that something else used between entering and leaving."""

    def __init__(self, *pids):
        self.pids = pids
        self.cores = 0.0

    def _own(self):
        times = os.times()
        return sum(map(cpu_seconds, self.pids)) + sum(times[:4])

    def __enter__(self):
        self._before = busy_seconds() - self._own(), time.monotonic()
        return self

    def __exit__(self, *_):
        other, began = self._before
        seconds = max(time.monotonic() - began, 0.05)
        self.cores = max(0.0, (busy_seconds() - self._own() - other) / seconds)


def wait_quiet(seconds, cores=0.2):
    """Until the machine does little else, but not longer than that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        busy, began = busy_seconds(), time.monotonic()
        time.sleep(0.3)
        if (busy_seconds() - busy) / (time.monotonic() - began) <= cores:
            return


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_port(port, process, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise Failure(f"{process.args[0]} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise Failure(f"{process.args[0]} does not listen on {port}")


class Server:
    """A process that is ended at the end."""

    def __init__(self, command, cwd, log, env=None):
        with open(log, "ab") as output:
            self.process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            env=env, start_new_session=True)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, how=signal.SIGTERM, seconds=10):
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return self.process.returncode


def run_lines(command, cwd, log, seconds=60, env=None):
    """The JSON lines that the program prints."""
    try:
        with open(log, "ab") as errors:
            done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                  timeout=seconds, env=env, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{command[0]}: not within {seconds} s") from None
    lines = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
    if not lines:
        raise Failure(f"{command[0]} said nothing and ended with {done.returncode}")
    return lines


def by_param(lines):
    """[{metric: value, "param", "bg"}]: one for each variant that a program measured in one run."""
    found = {}
    for line in lines:
        one = found.setdefault(line["param"], {"param": line["param"], "bg": line["bg"]})
        one[line["metric"]] = line["value"]
    return list(found.values())


def best(lines):
    """Of a program's variants the fastest."""
    return max(by_param(lines), key=lambda one: one.get("rate", 0))


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None
