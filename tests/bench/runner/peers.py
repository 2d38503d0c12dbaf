"""The peers: how each is built, and how one row of the table is run with it. Sources and their notes: ../peers/.

A peer answers run(row, seconds) with {rate, cpu_per_million, [p50_us, p99_us], param, bg}, or None where it has nothing
that compares. All run in FOLDER/NAME, beside FOLDER/certs.
"""
import contextlib
import os
import shutil
import subprocess
import time

from measure import Failure, Server, best, by_param, free_port, run_lines, wait_port

SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers")


def make_certificates(folder):
    """What the peers' TLS libraries want: names for localhost, which a node's certificate has not."""
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(f"{folder}/client.pem"):
        return

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    with open(f"{folder}/extensions", "w", encoding="ascii") as file:
        file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
                   "keyUsage=digitalSignature\nbasicConstraints=CA:FALSE\n")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *new_key, "-days", "365", "-subj", "/CN=bench-ca", "-keyout", "ca.key", "-out", "ca.pem")
    for who in ("server", "client"):
        openssl("req", *new_key, "-subj", "/CN=localhost", "-keyout", f"{who}.key", "-out", f"{who}.csr")
        openssl("x509", "-req", "-in", f"{who}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                "365", "-extfile", "extensions", "-out", f"{who}.pem")


class Peer:
    name = ""
    compare_with = False  # is it one that the targets name?
    needs = ()            # programs without which it cannot be built or run
    builds = ()           # (program, [command...]) in SOURCES

    def __init__(self, folder):
        self.folder = os.path.join(folder, self.name)
        self.log = os.path.join(self.folder, "log.txt")

    def prepare(self):
        """Builds it; says why where that is not possible."""
        for program in self.needs:
            if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin"):
                raise Failure(f"{program} is not installed (tools/setup.sh bench)")
        os.makedirs(self.folder, exist_ok=True)
        source = os.path.join(SOURCES, self.name)
        newest = max(os.path.getmtime(os.path.join(folder, file))
                     for folder in (source, os.path.join(SOURCES, "common")) for file in os.listdir(folder))
        for program, command in self.builds:
            path = os.path.join(self.folder, program)
            if os.path.exists(path) and os.path.getmtime(path) > newest:
                continue
            done = subprocess.run([part.replace("OUT", path).replace("FOLDER", self.folder) for part in command],
                                  cwd=source, capture_output=True, check=False)
            if done.returncode != 0:
                raise Failure(f"it does not build: {done.stderr.decode(errors='replace')[-400:]}")

    def start(self):
        """What stays up for the whole run."""

    def stop(self):
        pass

    def _pair(self, serve, ask, seconds):
        """The usual pair of programs; {port} and {pid} are filled in."""
        port = free_port()
        with Server([part.format(port=port) for part in serve], self.folder, self.log) as server:
            wait_port(port, server.process)
            return best(run_lines([part.format(port=port, pid=server.pid) for part in ask], self.folder, self.log,
                                  seconds * 3 + 30))


def cc(program, source, *libraries):
    return program, ["gcc", "-O2", "-march=native", "-w", "-o", "OUT", source, *libraries]


class Zmq(Peer):
    name = "zmq"
    needs = ("gcc",)
    builds = (cc("zb", "zb.c", "-lzmq"),)

    def run(self, row, seconds):
        if row.kind not in ("request_reply", "one_way", "fan"):
            return None
        common = ["--port", "{port}", "--curve", "1" if row.tls else "0", "--mode",
                  "ow" if row.kind == "one_way" else "rr"]
        return self._pair(["./zb", "srv", *common],
                          ["./zb", "cli", *common, "--out", str(row.outstanding), "--conns", str(row.connections),
                           "--size", str(row.size), "--secs", str(seconds), "--spid", "{pid}"], seconds)


class Nats(Peer):
    name = "nats"
    needs = ("gcc", "nats-server")
    builds = (cc("nb", "nb.c", "-lnats", "-lpthread"),)

    def run(self, row, seconds):
        if row.kind not in ("request_reply", "one_way", "fan"):
            return None
        alone = row.kind == "request_reply" and row.outstanding == 1
        mode = "sync" if alone else "ow" if row.kind == "one_way" else "rr"
        port = free_port()
        tls = ["--tls", "--tlscert", "../certs/server.pem", "--tlskey", "../certs/server.key", "--tlscacert",
               "../certs/ca.pem", "--tlsverify"] if row.tls else []
        common = ["--port", str(port), "--tls", "1" if row.tls else "0", "--asap", "1" if alone else "0"]
        broker = shutil.which("nats-server", path=os.environ.get("PATH", "") + ":/usr/sbin")
        with Server([broker, "-a", "127.0.0.1", "-p", str(port), *tls], self.folder, self.log) as server:
            wait_port(port, server.process)
            with Server(["./nb", "srv", *common], self.folder, self.log) as responder:
                return best(run_lines(
                    ["./nb", "cli", *common, "--mode", mode, "--out", str(row.outstanding), "--conns",
                     str(row.connections), "--size", str(row.size), "--secs", str(seconds), "--spid",
                     str(responder.pid), "--bpid", str(server.pid)], self.folder, self.log, seconds * 3 + 30))


class Grpc(Peer):
    name = "grpc"
    compare_with = True
    needs = ("g++", "protoc", "grpc_cpp_plugin", "pkg-config")
    builds = (("bench", ["sh", "-c", "/usr/bin/protoc --cpp_out=FOLDER --grpc_out=FOLDER "
                         "--plugin=protoc-gen-grpc=$(command -v grpc_cpp_plugin) bench.proto && "
                         "mkdir -p FOLDER/src && cp bench.cc FOLDER/src && mkdir -p FOLDER/common && "
                         "cp ../common/pb.h FOLDER/common && "
                         "g++ -O2 -std=c++17 -w -IFOLDER -o OUT FOLDER/src/bench.cc FOLDER/bench.pb.cc "
                         "FOLDER/bench.grpc.pb.cc $(pkg-config --cflags --libs grpc++ protobuf) -lpthread"]),)

    def run(self, row, seconds):
        mode = {"request_reply": "unary", "fan": "unary", "one_way": "sink", "handshakes": "hs", "resumed": "hs"}.get(row.kind)
        if mode is None:
            return None
        if mode == "unary" and row.outstanding == 1:
            mode = "sync"
        tls = ["--tls", "1" if row.tls else "0"]
        return self._pair(["./bench", "srv", "--port", "{port}", *tls],
                          ["./bench", "cli", "--port", "{port}", *tls, "--mode", mode, "--out", str(row.outstanding),
                           "--conns", str(row.connections), "--size", str(row.size), "--secs", str(seconds), "--spid",
                           "{pid}"], seconds)


class Erlang(Peer):
    name = "erlang"
    compare_with = True
    needs = ("erl", "erlc", "epmd")
    builds = (("pb.beam", ["sh", "-c", "cp ssl13.conf FOLDER && erlc -o FOLDER +'{inline,[]}' pb.erl"]),)
    local = {"E1a": "e1a", "E1b": "e1b", "E2a": "e2a", "E2b": "e2b", "E3-1": "{e3,1}", "E3-500": "{e3,500}"}

    def start(self):
        self.port = free_port()
        self.env = {**os.environ, "ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_EPMD_PORT": str(self.port),
                    "HOME": self.folder}
        self.epmd = Server(["epmd", "-address", "127.0.0.1", "-port", str(self.port)], self.folder, self.log, self.env)
        self.runs = 0

    def stop(self):
        self.epmd.stop()

    def run(self, row, seconds):
        third = f"t{self.runs + 1}@localhost"
        what = {"request_reply": f"{{rr,{row.outstanding}}}", "one_way": f"{{ow,{row.size}}}",
                "chain": f"{{chain,{row.outstanding},'{third}'}}",
                "fan": "{n4,ssl}" if row.tls else "{n4,gen_tcp}", "handshakes": "e4", "resumed": "e4"}.get(row.kind)
        if what is None:
            return None
        self.runs += 1
        common = ["-kernel", "inet_dist_use_interface", "{127,0,0,1}", "-setcookie", "bench", "-noshell", "-start_epmd",
                  "false"]
        if row.tls:
            common += ["-proto_dist", "inet_tls", "-ssl_dist_optfile", os.path.join(self.folder, "ssl13.conf")]
        server = f"s{self.runs}@localhost"
        with contextlib.ExitStack() as servers:
            for name in (server, third) if row.kind == "chain" else (server,):
                servers.enter_context(Server(["erl", "-sname", name, *common, "-s", "pb", "server"], self.folder,
                                             self.log, self.env))
            return best(run_lines(
                ["erl", "-sname", f"c{self.runs}@localhost", *common, "-eval",
                 f"pb:client(['{'tls' if row.tls else 'plain'}','{server}',{int(seconds * 1000)},{what}])."],
                self.folder, self.log, seconds * 3 + 30, self.env))

    def run_local(self, workload):
        return best(run_lines(["erl", "-noshell", "-eval", f"pb:local([{self.local[workload]}])."], self.folder,
                              self.log, env=self.env)) if workload in self.local else None


class Boost(Peer):
    name = "boost"
    compare_with = True
    needs = ("g++",)
    builds = tuple((program, ["g++", "-O2", "-march=native", "-std=c++20", "-fcoroutines", "-w", "-o", "OUT",
                              f"{program}.cc", "-lpthread"]) for program in ("e1", "e3"))

    def run_local(self, workload):
        program = "./e3" if workload.startswith("E3") else "./e1"
        return best(run_lines([program, workload], self.folder, self.log))


class Caf(Peer):
    name = "caf"
    compare_with = True
    needs = ("g++",)
    builds = (("caf", ["g++", "-O2", "-std=c++17", "-w", "-o", "OUT", "caf.cc", "-lcaf_core", "-lpthread"]),)

    def run_local(self, workload):
        return best(run_lines(["./caf", workload], self.folder, self.log))


class ExecFloor(Peer):
    name = "execfloor"
    compare_with = True
    needs = ("gcc",)
    builds = (cc("ef", "ef.c", "-lpthread"),)

    def run_local(self, workload):
        if not workload.startswith(("E1", "E2")):
            return None
        return best(run_lines(["./ef", workload], self.folder, self.log))


class Floor:
    """The raw floor with our frames; built with the project."""
    name = "floor"
    compare_with = False

    def __init__(self, build, folder):
        self.programs = os.path.join(build, "tests", "bench", "floor")
        self.folder = os.path.join(folder, self.name)
        self.certificates = os.path.join(folder, "certs")
        self.cipher = "aes128"
        self.log = os.path.join(self.folder, "log.txt")
        os.makedirs(self.folder, exist_ok=True)

    def prepare(self):
        pass

    def use_cipher(self, suite):
        """The one that the nodes agreed on: a floor of another cipher would say nothing of them."""
        found = next((option for part, option in (("AES128", "aes128"), ("CHACHA20", "chacha")) if part in suite), None)
        if not found:
            raise Failure(f"the floor has no {suite}")
        self.cipher = found

    def start(self):
        pass

    def stop(self):
        pass

    def run(self, row, seconds):
        if row.kind in ("handshakes", "resumed"):
            return self._handshakes(row)
        if row.kind not in ("request_reply", "one_way", "fan"):
            return None
        port = free_port()
        program = os.path.join(self.programs, "bench_floor")
        common = ["--port", str(port), "--tls", self.cipher if row.tls else "none", "--certs", self.certificates, "--mode",
                  "one-way" if row.kind == "one_way" else "echo"]
        with Server([program, "serve", *common, "--name", "server"], self.folder, self.log) as server:
            return best(run_lines(
                [program, "ask", *common, "--name", "client", "--size", str(row.size), "--connections",
                 str(row.connections), "--outstanding", str(row.outstanding), "--seconds", str(seconds),
                 "--server-pid", str(server.pid)], self.folder, self.log, seconds * 3 + 30))

    def dial(self, port, pid, certificates, name, count, resume=False):
        """Handshakes, full or resumed, with whoever listens there."""
        program = os.path.join(self.programs, "bench_handshakes")
        return by_param(run_lines([program, "dial", "--port", str(port), "--certs", certificates, "--name", name,
                                   "--threads", "4", "--count", str(count), "--server-pid", str(pid), "--resume", str(int(resume))],
                                  self.folder, self.log))[0]

    def _handshakes(self, row):
        port = free_port()
        with Server([os.path.join(self.programs, "bench_handshakes"), "serve", "--port", str(port), "--certs",
                     self.certificates, "--name", "server", "--threads", "4"], self.folder, self.log) as server:
            time.sleep(0.1)
            return self.dial(port, server.pid, self.certificates, "client", row.size,
                             row.kind == "resumed")


class Direct:
    """The node's own reactor, TLS and frames without the framework above them; built with the project."""
    name = "direct"
    compare_with = False

    def __init__(self, build, folder):
        self.program = os.path.join(build, "tests", "bench", "direct", "bench_direct")
        self.folder = os.path.join(folder, self.name)
        self.log = os.path.join(self.folder, "log.txt")
        self.certificates = None  # of the nodes
        os.makedirs(self.folder, exist_ok=True)

    def start(self):
        pass

    def stop(self):
        pass

    def run(self, row, seconds):
        if row.kind != "direct":
            return None
        common = ["--certs", self.certificates]
        told = os.path.join(self.folder, "port.txt")
        with open(told, "wb"):
            pass
        with Server([self.program, "serve", *common, "--name", "b"], self.folder, told) as server:
            port = self._port(told, server)
            return best(run_lines(
                [self.program, "ask", *common, "--name", "a", "--port", port, "--size", str(row.size), "--outstanding",
                 str(row.outstanding), "--seconds", str(seconds), "--server-pid", str(server.pid)], self.folder,
                self.log, seconds * 3 + 30))

    @staticmethod
    def _port(told, server):
        end = time.monotonic() + 10
        while time.monotonic() < end and server.process.poll() is None:
            with open(told, encoding="utf-8") as file:
                text = file.read()
            if text.startswith("port ") and text.endswith("\n"):
                return text.split()[1]
            time.sleep(0.02)
        raise Failure("bench_direct does not listen")


MESH_PEERS = (Zmq, Nats, Erlang, Grpc)
EXEC_PEERS = (ExecFloor, Boost, Caf, Erlang)


def prepared(peers, folder, wanted):
    """Those that can run here; the others are named with the reason."""
    ready, missing = [], {}
    make_certificates(os.path.join(folder, "certs"))
    for kind in peers:
        if wanted is not None and kind.name not in wanted:
            continue
        peer = kind(folder)
        try:
            peer.prepare()
        except Failure as why:
            missing[peer.name] = str(why)
            continue
        ready.append(peer)
    return ready, missing
