"""A mesh of three containers under docker/seccomp.json: what they may do, what they offer, and what they survive.

Nodes a and b host the counter Spots of the sample, node c the channel that every addition asks. Called by run.sh, which
sees to an engine, the images and the certificates. Nothing here waits for a while: everything waits for a condition.
"""
import argparse
import collections
import itertools
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NODES = ("a", "b", "c")
WAIT_S = 60
LOST_WAIT_S = 90
SPOTS = 20
OUTSTANDING = 16
ROUND = 10000
ADD = "0a056170706c651001"  # AddReq {item: "apple" amount: 1}
APPLE_CENTS = 25
PATIENT, HASTY = "60s", "4s"  # PATIENT: longer than any fault here lasts, so the client itself never gives up
BUILD_TOOLS = ("gcc", "cc", "clang", "ld", "as", "make", "ninja", "cmake", "python3", "protoc", "git", "strace", "gdb")


class Failure(Exception):
    """An expectation that does not hold."""


def check(condition, what):
    if not condition:
        raise Failure(what)


def equal(found, expected, what):
    check(found == expected, f"{what}: found {found!r}, expected {expected!r}")


def wait_until(condition, what, timeout=WAIT_S):
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"not within {timeout} s: {what}")
        time.sleep(0.1)


def run(*command, timeout=120, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                          check=False, **more)


def docker(*arguments, **more):
    done = run("docker", *arguments, **more)
    check(done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


class Setting:
    """What run.sh made, and the compose project."""

    def __init__(self, arguments):
        self.image, self.certs, self.folder = arguments.image, arguments.certs, arguments.folder
        self.project = arguments.project
        self.seccomp = os.path.join(ROOT, "docker", "seccomp.json")
        plugin = run("docker", "compose", "version").returncode == 0
        self._compose = ["docker", "compose"] if plugin else ["docker-compose"]
        self.client = None
        self.network = None
        self._ids = {}

    def compose(self, *arguments, timeout=180):
        more = {"ZLINK_IMAGE": self.image, "ZLINK_CERTS": self.certs, "ZLINK_SECCOMP": self.seccomp,
                "COMPOSE_PROJECT_NAME": self.project}
        done = run(*self._compose, *arguments, timeout=timeout, cwd=os.path.join(ROOT, "docker"),
                   env={**os.environ, **more})
        check(done.returncode == 0, f"compose {' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout.strip()

    def id(self, node):
        if node not in self._ids:
            self._ids[node] = self.compose("ps", "-q", node)
        return self._ids[node]

    def up(self):
        self.compose("up", "-d")
        networks = docker("network", "ls", "-q", "--filter", f"label=com.docker.compose.project={self.project}").split()
        equal(len(networks), 1, "networks of the project")
        self.network = networks[0]
        self.client = docker("run", "-d", "--network", self.network, *self.confined(), "--volume",
                             f"{self.certs}/client:/etc/zlink/certs:ro", "--no-healthcheck", "--entrypoint", "sleep",
                             self.image, "infinity")

    def confined(self, seccomp=None):
        """How a node is run where compose does not do it."""
        return ("--cap-drop", "ALL", "--read-only", "--security-opt", "no-new-privileges:true", "--security-opt",
                f"seccomp={seccomp or self.seccomp}")

    def down(self):
        if self.client:
            run("docker", "rm", "-f", self.client)
        self.compose("down", "--volumes", "--timeout", "5")

    def heal(self):
        """After a failed test: whatever it left stopped, paused or cut off comes back."""
        for node in NODES:
            run("docker", "unpause", self.id(node))
            run("docker", "start", self.id(node))
            if not self.inspect(node, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"):
                run("docker", "network", "connect", "--alias", node, self.network, self.id(node))

    def inspect(self, node, form):
        return docker("inspect", "-f", form, self.id(node))

    def exec(self, node, *command):
        return run("docker", "exec", self.client if node == "client" else self.id(node), *command)

    def logs(self, node):
        done = run("docker", "logs", self.id(node))
        return done.stdout + done.stderr

    # ---- nodes ----

    def status(self, node):
        """None where it does not answer."""
        done = self.exec(node, "zlinkctl", "status", "--json", "/run/zlink/control.sock")
        try:
            return json.loads(done.stdout)
        except ValueError:
            return None

    def counters(self, node):
        status = self.status(node)
        return None if status is None else status["counters"]

    def peers(self, node):
        status = self.status(node)
        return None if status is None else sorted(
            link["name"] for link in status["links"] if link["state"] == "ready" and link["role"] == "server")

    def linked(self):
        return all(self.peers(node) == [other for other in NODES if other != node] for node in NODES)

    def wait_linked(self):
        wait_until(self.linked, "every node has ready links to both others", LOST_WAIT_S)

    def wait_quiet(self):
        """Nothing hangs: no handler lives and no call is under way anywhere."""
        def quiet():
            all_counters = [self.counters(node) for node in NODES]
            return all(c and c["zlink.handlers.live"] == 0 and c["zlink.requests.inflight"] == 0 for c in all_counters)
        wait_until(quiet, "no node has a live handler or a request under way")

    # ---- calls ----

    def call(self, node, target, packet, payload, *more, timeout=120):
        certs = "/etc/zlink/certs"
        return run("docker", "exec", self.client, "zlinkctl", "call", "--connect", f"{node}:7700", "--ca",
                   f"{certs}/ca.pem", "--cert", f"{certs}/node.pem", "--key", f"{certs}/node.key", "--hex", payload,
                   *more, target, packet, timeout=timeout)

    def additions(self, node, prefix):
        """How many additions the Spots have seen; their other sums must fit."""
        done = self.call(node, f"spot:counter/{prefix}-{{}}", "samples.counter.TotalReq", "", "--count", str(SPOTS),
                         "--spread", str(SPOTS))
        replies = re.findall(rf"^{prefix}-\d+ samples\.counter\.TotalRes ?([0-9a-f]*)$", done.stdout, re.MULTILINE)
        equal(len(replies), SPOTS, f"replies to TotalReq ({done.stderr.strip()})")
        sums = collections.Counter()
        for reply in replies:
            sums.update(decode(bytes.fromhex(reply)))
        equal(sums[1], APPLE_CENTS * sums[2], "cents of all additions")
        equal(sums[3], 0, "turns of one Spot that overlapped")
        return sums[2]


def decode(data):
    """{field: value} of a message with nothing but numbers."""
    numbers, value, shift = [], 0, 0
    for byte in data:
        value, shift = value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            numbers.append(value)
            value, shift = 0, 0
    return {key >> 3: number for key, number in zip(numbers[::2], numbers[1::2])}


class Load:
    """Calls to one node, round after round, until it is told to end. Every call of every round has to have one end."""

    _numbers = itertools.count(1)

    def __init__(self, setting, node, timeout):
        self.setting, self.node, self.timeout = setting, node, timeout
        self.prefix = f"{node}-load{next(self._numbers)}"  # Spots of its own
        self.calls = self.ok = 0
        self.failed = collections.Counter()
        self.problem = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self._ending.set()
        self._thread.join()
        if kind is None:
            check(self.problem is None, f"load on {self.node}: {self.problem}")
            print(f"    {self.node}: {self.calls} calls, {self.ok} ok, {dict(self.failed)}", flush=True)

    def _run(self):
        while not self._ending.is_set() and self.problem is None:
            try:
                self._round()
            except Exception:
                self.problem = traceback.format_exc()

    def _round(self):
        done = self.setting.call(self.node, f"spot:counter/{self.prefix}-{{}}", "samples.counter.AddReq", ADD,
                                 "--reconnect", "--count", str(ROUND), "--outstanding", str(OUTSTANDING), "--spread",
                                 str(SPOTS), "--timeout", self.timeout, "--json", "--quiet", timeout=300)
        if not done.stdout.startswith("{"):
            return  # no node answered (or no engine did): no call was made
        result = json.loads(done.stdout)
        if result["calls"] != result["ok"] + sum(result["failed"].values()):
            self.problem = f"some calls have no end, or more than one: {result}"
        self.calls += result["calls"]
        self.failed.update(result["failed"])
        self.ok += result["ok"]

    def wait_progress(self):
        """A whole round of calls succeeds, and the next one is under way."""
        goal = self.ok + ROUND
        wait_until(lambda: self.ok >= goal or self.problem, f"{ROUND} more calls to {self.node} succeed; "
                   f"{dict(self.failed)}")
        wait_until(lambda: (self.setting.counters(self.node) or {}).get("zlink.handlers.live") or self.problem,
                   f"calls to {self.node} are under way")

    def wait_failure(self):
        seen = sum(self.failed.values())
        wait_until(lambda: sum(self.failed.values()) > seen or self.problem, f"a call to {self.node} fails")

    def check_exact(self):
        """The client's link was never lost and it never gave up, so its count is the Spots' count."""
        equal(self.setting.additions(self.node, self.prefix), self.ok, f"additions on {self.node}")

    def check_between(self):
        """Of a call that ended without an answer nobody knows whether it was done; of all others everybody does."""
        found = self.setting.additions(self.node, self.prefix)
        check(self.ok <= found <= self.ok + sum(self.failed.values()),
              f"additions on {self.node}: {found}, with {self.ok} calls answered and {dict(self.failed)} not")


# ---- the image and what a container may do ----

def test_image_holds_no_build_tools(setting):
    listing = docker("run", "--rm", "--network", "none", "--entrypoint", "find", setting.image, "/bin/", "/sbin/",
                     "/usr/bin", "/usr/sbin", "/usr/local/bin", "-type", "f", "-o", "-type", "l")
    programs = {os.path.basename(path) for path in listing.split()}
    check({"zlink-node", "zlinkctl"} <= programs, "the image holds zlink-node and zlinkctl")
    found = sorted(programs & set(BUILD_TOOLS))
    check(not found, f"the image holds {found}")
    secrets = docker("run", "--rm", "--network", "none", "--entrypoint", "find", setting.image, "/etc/zlink",
                     "/usr/local", "-name", "*.pem", "-o", "-name", "*.key", "-o", "-name", "*.h")
    equal(secrets, "", "certificates, keys and headers in the image")


def test_the_mesh_becomes_healthy(setting):
    setting.up()
    for node in NODES:
        wait_until(lambda node=node: setting.inspect(node, "{{.State.Health.Status}}") == "healthy",
                   f"container {node} is healthy")
        equal(setting.inspect(node, "{{.Config.StopSignal}}"), "SIGTERM", "stop signal")
        equal(setting.inspect(node, "{{.Config.StopTimeout}}"), "35", "stop grace")
        line = re.search(r"event=zlink\.node\.io_uring .*", setting.logs(node))
        check(line and "kernel=" in line[0] and "seccomp=2" in line[0], f"{node} says what io_uring it has: {line}")
    setting.wait_linked()


def test_a_container_has_no_privileges(setting):
    for node in NODES:
        done = setting.exec(node, "cat", "/proc/1/status")
        status = dict(re.findall(r"^(\w+):\s*(.*)$", done.stdout, re.MULTILINE))
        equal(status.get("Name"), "zlink-node", "process 1")
        for ids in ("Uid", "Gid"):
            equal(status[ids].split(), ["7700"] * 4, ids)
        for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            equal(int(status[capabilities], 16), 0, capabilities)
        equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "no-new-privileges and a seccomp filter")
        mounts = [line.split() for line in setting.exec(node, "cat", "/proc/1/mounts").stdout.splitlines()]
        root = [mount[3].split(",") for mount in mounts if mount[1] == "/"]
        check(root and all("ro" in options for options in root), f"the root file system is read-only: {root}")
        for folder in ("/x", "/etc/zlink/x", "/usr/local/bin/x", "/tmp/x"):
            done = setting.exec(node, "mkdir", folder)
            check(done.returncode != 0 and "Read-only" in done.stderr, f"mkdir {folder}: {done.stderr.strip()}")


def blocked_profile(setting, errno):
    """Ours, with io_uring answered as other profiles do."""
    with open(setting.seccomp, encoding="utf-8") as file:
        profile = json.load(file)
    rules = [rule for rule in profile["syscalls"] if "io_uring_setup" in rule["names"]]
    equal(len(rules), 1, "rules with io_uring_setup")
    rules[0].update(action="SCMP_ACT_ERRNO", errnoRet=errno)
    path = os.path.join(setting.folder, f"blocked-{errno}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(profile, file)
    return path


def test_a_profile_that_blocks_io_uring(setting):
    for errno in (1, 38):
        confined = setting.confined(blocked_profile(setting, errno))
        for entry in ("zlink-node", "zlinkctl"):
            arguments = ["check"] if entry == "zlinkctl" else ["--config", "/etc/zlink/node.yaml"]
            done = run("docker", "run", "--rm", "--network", "none", *confined, "--tmpfs",
                       "/run/zlink:uid=7700,gid=7700,mode=0700", "--volume",
                       f"{ROOT}/docker/mesh/a.yaml:/etc/zlink/node.yaml:ro", "--volume",
                       f"{setting.certs}/a:/etc/zlink/certs:ro", "--entrypoint", entry, setting.image, *arguments)
            equal(done.returncode, 1, f"exit code of {entry} ({done.stderr})")
            lines = [line for line in done.stderr.splitlines() if not line.startswith("ts=")]
            equal(len(lines), 1, f"lines of {entry} on stderr ({done.stderr})")
            for words in ("io_uring", "seccomp filter blocks", "io_uring_setup, io_uring_enter and io_uring_register"):
                check(words in lines[0], f"{entry} says '{words}': {lines[0]}")


def test_a_refused_start(setting):
    done = run("docker", "run", "--rm", "--network", "none", *setting.confined(), setting.image)
    equal(done.returncode, 1, "exit code without a configuration")
    equal(len(done.stderr.splitlines()), 1, f"lines on stderr ({done.stderr})")
    check("/etc/zlink/node.yaml" in done.stderr, f"it names the file: {done.stderr}")


# ---- TLS ----

def test_sslscan(setting):
    address = setting.inspect("a", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
    certs = f"{setting.certs}/client"
    done = run("sslscan", f"--certs={certs}/node.pem", f"--pk={certs}/node.key", "--xml=-", f"{address}:7700")
    try:
        scan = xml.etree.ElementTree.fromstring(done.stdout).find("ssltest")
    except xml.etree.ElementTree.ParseError as error:
        raise Failure(f"sslscan: {error}: {done.stdout[:300]} {done.stderr[:300]}") from None
    check(scan is not None, f"sslscan found nothing to scan: {done.stdout[:300]}")
    offered = {(entry.get("type"), entry.get("version")) for entry in scan.iter("protocol")}
    check({("ssl", "3"), ("tls", "1.0"), ("tls", "1.1"), ("tls", "1.2")} <= offered, f"protocols asked for: {offered}")
    enabled = {entry.get("version") for entry in scan.iter("protocol") if entry.get("enabled") == "1"}
    check(enabled and enabled <= {"1.2", "1.3"}, f"protocols: {sorted(enabled)}")
    ciphers = sorted({entry.get("cipher") for entry in scan.iter("cipher")})
    check(ciphers, "sslscan got no handshake through")
    weak = [name for name in ciphers if not re.search(r"GCM|CCM|CHACHA20|POLY1305", name)]
    check(not weak, f"ciphers that are not AEAD: {weak}")
    renegotiation = scan.find("renegotiation")
    check(renegotiation is not None and renegotiation.get("supported") == "0", "renegotiation is refused")
    compression = scan.find("compression")  # absent where this sslscan cannot speak it
    check(compression is None or compression.get("supported") == "0", "compression is refused")
    check(all(entry.get("vulnerable") == "0" for entry in scan.iter("heartbleed")), "heartbleed")
    equal(compression_taken(address), 0, "the compression method out of a hello that offers one")
    setting.wait_linked()
    print(f"    TLS {', '.join(sorted(enabled))}: {', '.join(ciphers)}", flush=True)


def compression_taken(address):
    """The compression method (0 is none) that the server takes out of a TLS 1.2 hello that offers DEFLATE first, which
    today's clients cannot even do."""
    def vector(data, size=2):
        return len(data).to_bytes(size, "big") + data
    extensions = b"".join(struct.pack(">H", number) + vector(data) for number, data in (
        (10, vector(b"\x00\x17")), (11, vector(b"\x00", 1)), (13, vector(b"\x04\x03"))))  # P-256, uncompressed, ECDSA
    ciphers = b"\xc0\x2b\xc0\x2c\xcc\xa9\x00\xff"
    hello = (b"\x03\x03" + os.urandom(32) + vector(b"", 1) + vector(ciphers) + vector(b"\x01\x00", 1) +
             vector(extensions))
    with socket.create_connection((address, 7700), timeout=WAIT_S) as connection:
        connection.sendall(b"\x16\x03\x01" + vector(b"\x01" + vector(hello, 3)))
        answer = connection.makefile("rb").read(5 + 4 + 2 + 32 + 1 + 32 + 2 + 1)
    check(answer[:1] == b"\x16" and answer[5:6] == b"\x02", f"the answer to a hello: {answer[:16].hex()}")
    session_bytes = answer[43]
    return answer[44 + session_bytes + 2]


# ---- calls and faults ----

def test_calls_across_three_containers(setting):
    setting.wait_linked()
    with Load(setting, "a", PATIENT) as on_a, Load(setting, "b", PATIENT) as on_b:
        on_a.wait_progress()
        on_b.wait_progress()
    for load in (on_a, on_b):
        equal(dict(load.failed), {}, f"failed calls to {load.node}")
        load.check_exact()
    setting.wait_quiet()


def test_kill_the_one_that_all_ask(setting):
    setting.wait_linked()
    with Load(setting, "a", PATIENT) as on_a, Load(setting, "b", PATIENT) as on_b:
        on_a.wait_progress()
        on_b.wait_progress()
        docker("kill", setting.id("c"))
        on_a.wait_failure()
        on_b.wait_failure()
        docker("start", setting.id("c"))
        setting.wait_linked()
        on_a.wait_progress()
        on_b.wait_progress()
    on_a.check_exact()
    on_b.check_exact()
    setting.wait_quiet()


def test_kill_a_host_of_spots(setting):
    setting.wait_linked()
    with Load(setting, "a", HASTY) as on_a, Load(setting, "b", PATIENT) as on_b:
        on_a.wait_progress()
        on_b.wait_progress()
        docker("kill", setting.id("a"))
        wait_until(lambda: setting.peers("b") == ["c"], "b has lost a", LOST_WAIT_S)
        on_b.wait_progress()
        docker("start", setting.id("a"))
        setting.wait_linked()
        on_a.wait_progress()
    equal(dict(on_b.failed), {}, "failed calls to b, which nothing happened to")
    on_b.check_exact()
    setting.wait_quiet()
    with Load(setting, "a", PATIENT) as again:
        again.wait_progress()
    equal(dict(again.failed), {}, "failed calls to the new a")
    again.check_exact()


def test_a_short_pause_loses_nothing(setting):
    setting.wait_linked()
    with Load(setting, "a", PATIENT) as on_a, Load(setting, "b", PATIENT) as on_b:
        on_a.wait_progress()
        on_b.wait_progress()
        docker("pause", setting.id("c"))
        try:
            for node in ("a", "b"):
                wait_until(lambda node=node: (setting.counters(node) or {}).get("zlink.handlers.live", 0) >=
                           OUTSTANDING, f"all calls to {node} wait for c", 10)
        finally:
            docker("unpause", setting.id("c"))
        on_a.wait_progress()
        on_b.wait_progress()
    for load in (on_a, on_b):
        equal(dict(load.failed), {}, f"failed calls to {load.node}")
        load.check_exact()
    setting.wait_quiet()


def test_a_pause_beyond_the_liveness_deadline(setting):
    setting.wait_linked()
    with Load(setting, "a", PATIENT) as on_a, Load(setting, "b", PATIENT) as on_b:
        on_a.wait_progress()
        docker("pause", setting.id("c"))
        try:
            wait_until(lambda: setting.peers("a") == ["b"] and setting.peers("b") == ["a"], "a and b have lost c",
                       LOST_WAIT_S)
        finally:
            docker("unpause", setting.id("c"))
        setting.wait_linked()
        on_a.wait_progress()
        on_b.wait_progress()
    on_a.check_exact()
    on_b.check_exact()
    setting.wait_quiet()


def test_a_host_of_spots_off_the_network(setting):
    setting.wait_linked()
    with Load(setting, "a", PATIENT) as on_a, Load(setting, "b", HASTY) as on_b:
        on_a.wait_progress()
        on_b.wait_progress()
        docker("network", "disconnect", setting.network, setting.id("b"))
        try:
            wait_until(lambda: setting.peers("a") == ["c"] and setting.peers("c") == ["a"], "a and c have lost b",
                       LOST_WAIT_S)
        finally:
            docker("network", "connect", "--alias", "b", setting.network, setting.id("b"))
        setting.wait_linked()
        on_a.wait_progress()
        on_b.wait_progress()
    equal(dict(on_a.failed), {}, "failed calls to a, which nothing happened to")
    on_a.check_exact()
    on_b.check_between()
    setting.wait_quiet()


def test_restart_all_in_turn(setting):
    setting.wait_linked()
    with Load(setting, "a", HASTY) as on_a, Load(setting, "b", HASTY) as on_b:
        for node in ("c", "a", "b"):
            on_a.wait_progress()
            on_b.wait_progress()
            docker("stop", "--time", "35", setting.id(node))
            equal(setting.inspect(node, "{{.State.ExitCode}}"), "0", f"exit code of {node}, which drained")
            docker("start", setting.id(node))
            setting.wait_linked()
        on_a.wait_progress()
        on_b.wait_progress()
    setting.wait_quiet()
    for node in NODES:
        wait_until(lambda node=node: setting.inspect(node, "{{.State.Health.Status}}") == "healthy",
                   f"container {node} is healthy again")
    with Load(setting, "a", PATIENT) as on_a, Load(setting, "b", PATIENT) as on_b:
        on_a.wait_progress()
        on_b.wait_progress()
    for load in (on_a, on_b):
        equal(dict(load.failed), {}, f"failed calls to {load.node}")
        load.check_exact()


def test_stop(setting):
    setting.compose("stop")
    for node in NODES:
        equal(setting.inspect(node, "{{.State.ExitCode}}"), "0", f"exit code of {node}")
        check("event=zlink.node.stopped" in setting.logs(node), f"{node} said that it stopped")
        check(setting.inspect(node, "{{.State.OOMKilled}}") == "false", f"{node} had memory enough")


def main():
    parser = argparse.ArgumentParser(description="Tests with the node in containers.")
    for name in ("image", "certs", "folder", "project"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", action="append", help="only tests with this in their name")
    arguments = parser.parse_args()
    setting = Setting(arguments)
    passed = failed = 0
    try:
        for name, test in list(globals().items()):
            wanted = not arguments.only or name == "test_the_mesh_becomes_healthy" or any(
                part in name for part in arguments.only)
            if not name.startswith("test_") or not wanted:
                continue
            began = time.monotonic()
            try:
                test(setting)
                problem = None
            except Failure as error:
                problem = str(error)
            except Exception:
                problem = traceback.format_exc()
            print(f"{'FAILED' if problem else 'ok'} {name} {time.monotonic() - began:.1f} s", flush=True)
            passed, failed = passed + (problem is None), failed + (problem is not None)
            if problem:
                print("    " + problem.replace("\n", "\n    "), flush=True)
                if setting.client:
                    for node in NODES:
                        print(f"    {node} said:\n" + "\n".join(
                            f"      {line}" for line in setting.logs(node).splitlines() if "peer=client-" not in line
                            )[-3000:], flush=True)
                    setting.heal()
    finally:
        setting.down()
    print(f"{passed} passed, {failed} failed")
    sys.exit(0 if failed == 0 and passed > 0 else 1)


if __name__ == "__main__":
    main()
