"""Two nodes on this machine: node b answers (bench_echo), node a drives it (bench_driver) through the public API. As a
chain there is a third between them: b (bench_via) asks c (bench_echo) before it answers."""
import json
import os
import re
import socket
import subprocess
import time

from measure import Background, Failure, Server

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(os.path.dirname(HERE), "modules", "bench.proto")
MESH = "bench"
SUB_BUCKETS = 64  # modules/latencies.h


def bucket_us(bucket):
    """The middle of a bucket of modules/latencies.h."""
    if bucket < SUB_BUCKETS:
        return bucket / 1000
    exponent = bucket // SUB_BUCKETS - 1
    low = (bucket % SUB_BUCKETS + SUB_BUCKETS) << exponent
    return (low + (1 << exponent) / 2) / 1000


def percentile_us(histogram, part):
    left = part * sum(histogram.values())
    for bucket in sorted(histogram):
        left -= histogram[bucket]
        if left <= 0:
            return bucket_us(bucket)
    return None


JOBS = 4096


class NodePair:
    """transport: "tls" or "plain". jobs: max_queued_application_jobs of all nodes; 0: the default."""

    def __init__(self, build, folder, transport, jobs=JOBS, chain=False):
        self.build, self.transport, self.jobs, self.chain = build, transport, jobs, chain
        self.names = ("a", "b", "c") if chain else ("a", "b")
        self.folder = os.path.join(folder, f"nodes-{transport}")
        self.certificates = os.path.join(self.folder, "certs")
        self.nodes = {}
        self.address = {}
        os.makedirs(self.folder, exist_ok=True)

    def __enter__(self):
        try:
            if self.transport == "tls":
                self._make_certificates()
            self._start(self.names[-1], "bench_echo", {})
            if self.chain:
                self._start("b", "bench_via", self._asks("echo", "c"))
            self._start("a", "bench_driver", self._asks("via" if self.chain else "echo", "b"))
            for name in self.names[:-1]:
                self._wait_link(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        codes = {name: self.nodes[name].stop(seconds=40) for name in self.names if name in self.nodes}
        if any(codes.values()):
            print(f"bench: a node did not stop in order: {codes}; see {self.folder}", flush=True)

    def ctl(self):
        return os.path.join(self.build, "ctl", "zlinkctl")

    def log_of(self, name):
        return os.path.join(self.folder, f"{name}.log")

    def pid(self, name):
        return self.nodes[name].pid

    def _make_certificates(self):
        def make(*arguments):
            subprocess.run([self.ctl(), "certs", *arguments, "--dir", self.certificates], check=True,
                           stdout=subprocess.DEVNULL)

        if os.path.exists(self.certificates):
            for name in os.listdir(self.certificates):
                os.remove(os.path.join(self.certificates, name))
        make("init", "--mesh", MESH)
        for name in self.names:
            make("node", "--name", name)
        make("client", "--name", "driver")

    def _start(self, name, module, more):
        config = {
            "mesh": MESH, "name": name, "listen": "127.0.0.1:0", "control": os.path.join(self.folder, f"{name}.sock"),
            "modules": [os.path.join(self.build, "tests", "bench", f"{module}.so")], "log": {"level": "warn"}, **more,
        }
        if self.jobs:
            # One Spot has room for all of them, or its one-way messages would be dropped.
            config["limits"] = {"max_queued_application_jobs": str(self.jobs), "application_messages": str(2 * self.jobs)}
        if self.transport == "tls":
            config["tls"] = {"ca": "certs/ca.pem", "certificate": f"certs/{name}.pem", "key": f"certs/{name}.key"}
        else:
            config["transport"] = "plain-without-encryption-or-authentication"
        path = os.path.join(self.folder, f"{name}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1)  # JSON is YAML
        self.nodes[name] = Server([os.path.join(self.build, "node", "zlink-node"), "--config", path], self.folder,
                                  self.log_of(name))
        self.address[name] = self._wait(lambda: (self.status(name) or {}).get("listen"), f"node {name} serves")

    def status(self, name):
        """As a dict, None where nobody answers."""
        parts = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(10)
            try:
                connection.connect(os.path.join(self.folder, f"{name}.sock"))
                connection.sendall(b"status\n")
                while part := connection.recv(65536):
                    parts.append(part)
            except OSError:
                return None
        return json.loads(b"".join(parts)) if parts else None

    def _wait(self, condition, what):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if value := condition():
                return value
            for name, node in self.nodes.items():
                if node.process.poll() is not None:
                    with open(self.log_of(name), encoding="utf-8", errors="replace") as file:
                        raise Failure(f"node {name} ended: {file.read()[-500:]}")
            time.sleep(0.02)
        raise Failure(f"not within 20 s: {what}")

    def _asks(self, spot_type, node):
        return {"peers": [self.address[node]], "spots": [{"type": spot_type, "node": node}]}

    def _wait_link(self, name):
        def linked():
            return any(link["state"] == "ready" for link in (self.status(name) or {}).get("links", []))
        self._wait(linked, f"the link of {name}")

    def cipher(self):
        return next((link["cipher"] for link in self.status("a")["links"] if link["name"] == "b"), None)

    def drive(self, wait, outstanding=1, target=None, note_bytes=0, request_bytes=64, spots=1, warm_up_ms=200,
              duration_ms=1000):
        """One run: {rate, cpu_per_million, p50_us, p99_us, bg, lost, failed}. `wait` is yield, then or send."""
        target = target or ("via" if self.chain else "spot")
        pids = [self.pid(name) for name in self.names]
        text = (f'target: "{target}" wait: "{wait}" outstanding: {outstanding} note_bytes: {note_bytes} '
                f"request_bytes: {request_bytes} warm_up_ms: {warm_up_ms} duration_ms: {duration_ms} "
                + " ".join(f"pids: {pid}" for pid in pids))
        command = [self.ctl(), "call", "--connect", self.address["a"], "--proto", PROTO, "--timeout", "30s",
                   "--count", str(spots), "--outstanding", str(spots), "--spread", str(spots), "--text", text]
        if self.transport == "tls":
            command += ["--ca", f"{self.certificates}/ca.pem", "--cert", f"{self.certificates}/driver.pem",
                        "--key", f"{self.certificates}/driver.key"]
        else:
            command += ["--plain", MESH]
        command += ["spot:driver/d{}", "bench.DriveReq"]
        with Background(*pids) as background:
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        replies = [line for line in done.stdout.decode().splitlines() if "bench.DriveRes" in line]
        if done.returncode != 0 or len(replies) != spots:
            raise Failure(f"the driver: {done.stdout.decode()[-300:]}{done.stderr.decode()[-300:]}")
        return {**self._sum(replies), "bg": background.cores}

    @staticmethod
    def _sum(replies):
        rate, cores, failed, lost, histogram = 0.0, 0.0, 0, 0, {}
        for reply in replies:
            fields = {}
            for key, value in re.findall(r"(\w+): (\S+)", reply):
                fields.setdefault(key, []).append(float(value))
            seconds = fields["seconds"][0]
            rate += fields.get("operations", [0])[0] / seconds
            cores += fields.get("cpu_seconds", [0])[0] / seconds / len(replies)
            failed += int(fields.get("failed", [0])[0])
            lost += int(fields.get("lost", [0])[0])
            for bucket, count in zip(fields.get("bucket", []), fields.get("count", [])):
                histogram[int(bucket)] = histogram.get(int(bucket), 0) + int(count)
        if rate == 0:
            raise Failure("no call came through")
        return {"rate": rate, "cpu_per_million": cores / rate * 1e6, "p50_us": percentile_us(histogram, 0.5),
                "p99_us": percentile_us(histogram, 0.99), "failed": failed, "lost": lost}
