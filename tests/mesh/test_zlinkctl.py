"""The tool: certificates, calls, status, checks."""
import json
import os
import re

import harness
from harness import check, equal, pb, probe


def mode_of(path):
    return oct(os.stat(path).st_mode & 0o7777)


# Keys are for their owner alone; what is there is never overwritten.
def test_certs_modes_and_no_overwriting(mesh):
    folder = mesh.path("new/certs")
    os.mkdir(mesh.path("new"))
    os.umask(0)
    try:
        mesh.ctl_ok("certs", "init", "--dir", folder, "--mesh", "shop")
        mesh.ctl_ok("certs", "node", "--dir", folder, "--name", "a", "--days", "3", "--host", "localhost")
        mesh.ctl_ok("certs", "client", "--dir", folder, "--name", "tool")
    finally:
        os.umask(0o022)
    equal(sorted(os.listdir(folder)), ["a.key", "a.pem", "ca.key", "ca.pem", "tool.key", "tool.pem"], "files")
    for name in ("a", "ca", "tool"):
        equal(mode_of(f"{folder}/{name}.key"), "0o600", f"mode of {name}.key")

    def contents():
        found = {}
        for name in os.listdir(folder):
            with open(f"{folder}/{name}", "rb") as file:
                found[name] = file.read()
        return found

    before = contents()
    for command in (("init", "--mesh", "shop"), ("node", "--name", "a"), ("client", "--name", "a"),
                    ("client", "--name", "tool")):
        result = mesh.ctl("certs", *command, "--dir", folder)
        check(result.code != 0 and "exist" in result.err, f"certs {command}: {result}")
    equal(contents(), before, "the files")
    os.remove(f"{folder}/a.pem")  # the key is still there
    check(mesh.ctl("certs", "node", "--dir", folder, "--name", "a").code != 0, "a key was overwritten")
    check(not os.path.exists(f"{folder}/a.pem"), "a certificate without its key")
    result = mesh.ctl("certs", "node", "--dir", mesh.path("nowhere"), "--name", "a")
    check(result.code == 1 and mesh.path("nowhere") in result.err, f"certs in no folder: {result}")


# Arguments that make no sense: exit code 2 and a word about it, before anything is done.
def test_bad_arguments(mesh):
    files = mesh.certificate("tool", "client")
    tls = ("--ca", files["ca"], "--cert", files["certificate"], "--key", files["key"])
    good = ("--connect", "127.0.0.1:1", *tls)
    proto = os.path.join(harness.HERE, "modules", "mesh.proto")
    for arguments in (
            (), ("what",), ("certs",), ("certs", "what"), ("certs", "init"), ("certs", "init", "--dir", "x"),
            ("certs", "node", "--dir", mesh.folder), ("certs", "node", "--dir", mesh.folder, "--name", "a b"),
            ("certs", "init", "--dir", mesh.path("x"), "--mesh", "m", "--days", "0"), ("certs", "init", "extra"),
            ("status",), ("status", "a", "b"), ("status", "--what"), ("check", "extra"), ("check", "--config"),
            ("call",), ("call", *good), ("call", *good, "channel:far"), ("call", *tls, "channel:far", "P"),
            ("call", "--connect", "127.0.0.1:1", "channel:far", "P"), ("call", *good, "far", "P"),
            ("call", *good, "spot:probe", "P"), ("call", *good, "spot:probe/", "P"), ("call", *good, "channel:", "P"),
            ("call", *good, "channel:far", ""), ("call", *good, "channel:far", "p" * 256),
            ("call", *good, "channel:far", "P", "more"), ("call", *good, "--count", "0", "channel:far", "P"),
            ("call", *good, "--count", "x", "channel:far", "P"), ("call", *good, "--timeout", "5", "channel:far", "P"),
            ("call", *good, "--spread", "5", "spot:probe/x", "P"), ("call", *good, "--text", "x", "channel:far", "P"),
            ("call", *good, "--text", "x", "--hex", "00", "--proto", proto, "channel:far", "P"),
            ("call", *good, "--plain", "shop", "channel:far", "P"), ("call", *good, "--what", "channel:far", "P"),
            ("send",), ("send", *good, "far", "P")):
        result = mesh.ctl(*arguments)
        equal(result.code, 2, f"exit code for {arguments} ({result.err})")
        check(result.err and not result.out, f"output for {arguments}: {result}")
    check(not os.path.exists(mesh.path("x")), "a folder was made")
    for arguments in (("--help",), ("--version",), ("call", "--help"), ("certs", "--help"), ("check", "--help")):
        equal(mesh.ctl(*arguments).code, 0, f"exit code for {arguments}")


class Tool:
    """zlinkctl call and send, against one node."""

    def __init__(self, mesh, node):
        self.mesh, self.node = mesh, node
        self.files = mesh.certificate("tool", "client")
        self.proto = os.path.join(harness.HERE, "modules", "mesh.proto")

    def run(self, verb, *arguments, **fields):
        return self.mesh.ctl(verb, "--connect", self.node.address, "--ca", self.files["ca"], "--cert",
                             self.files["certificate"], "--key", self.files["key"], *arguments, **fields)


# One call, in each form that the message may have; its reply as bytes and as text.
def test_call(mesh):
    node = mesh.node("a")
    tool = Tool(mesh, node)
    packet = "tests.mesh.PingReq"
    result = tool.run("call", "--proto", tool.proto, "--text", 'tag: "one"', "spot:probe/x", packet)
    check(result.code == 0 and 'owner: "x"' in result.out, f"a typed call: {result}")
    payload = pb.PingReq(tag="two").SerializeToString()
    result = tool.run("call", "--hex", payload.hex(), "channel:far", packet)
    check(result.code == 0 and result.out, f"a call with bytes: {result}")
    result = tool.run("call", "spot:probe/x", packet, stdin=pb.PingReq(tag="three").SerializeToString())
    check(result.code == 0, f"a call from standard input: {result}")
    client = mesh.client(node, "watch")
    equal((client.log(probe("x")).log, client.log(harness.FAR).log), ("one three", "two"), "what arrived")


# Calls that fail: exit code 1, and the kind by its name.
def test_failed_calls(mesh):
    node = mesh.node("a")
    tool = Tool(mesh, node)
    for target, packet, kind in (("channel:nobody", "tests.mesh.PingReq", "NotFound"),
                                 ("spot:nothing/x", "tests.mesh.PingReq", "NotFound"),
                                 ("spot:probe/x", "tests.mesh.Nobody", "NotFound")):
        result = tool.run("call", "--hex", "", target, packet)
        check(result.code == 1 and kind in result.out + result.err, f"{target} {packet}: {result}")
    hand = mesh.hand(node)
    wait = pb.WaitReq(how=pb.YIELD, channel="latch").SerializeToString().hex()
    result = tool.run("call", "--hex", wait, "--timeout", "100ms", "spot:probe/x", "tests.mesh.WaitReq")
    check(result.code == 1 and "DeadlineExceeded" in result.out + result.err, f"a call that takes too long: {result}")
    # Nobody there, and somebody who does not want to.
    stranger = mesh.certificate("tool", "client", folder="strangers")
    result = mesh.ctl("call", "--connect", node.address, "--ca", stranger["ca"], "--cert", stranger["certificate"],
                      "--key", stranger["key"], "--timeout", "1s", "--hex", "", "channel:far", "tests.mesh.PingReq")
    check(result.code == 1 and result.err.count("\n") >= 1, f"a stranger's call: {result}")
    hand.close()  # ends what still waits
    node.stop()
    result = tool.run("call", "--timeout", "1s", "--hex", "", "channel:far", "tests.mesh.PingReq")
    check(result.code == 1 and node.address in result.err, f"a call to nobody: {result}")


# An answer that could not be written is a failure.
def test_full_disk(mesh):
    node = mesh.node("a")
    tool = mesh.program("ctl/zlinkctl")
    result = mesh.run("/bin/sh", "-c", 'exec "$0" status "$1" >/dev/full', tool, node.control)
    check(result.code == 1 and "stdout" in result.err, f"status to a full disk: {result}")


# Many calls, spread over Spots: every one is counted, and arrives once.
def test_load_is_exact(mesh):
    node = mesh.node("a")
    summary = mesh.load([node], "spot:probe/s-{}", pb.WaitReq(how=pb.YIELD, channel="far", amount=1), 3000, 100,
                        "--spread", "30")
    equal((summary["calls"], summary["ok"], summary["failed"]), (3000, 3000, {}), "the sums")
    client = mesh.client(node)
    logs = [client.log(probe(f"s-{index}")) for index in range(30)]
    equal([log.total for log in logs], [100] * 30, "totals")
    equal(sum(log.overlaps for log in logs), 0, "overlaps")


# One-way messages.
def test_send(mesh):
    node = mesh.node("a")
    tool = Tool(mesh, node)
    result = tool.run("send", "--proto", tool.proto, "--text", 'tag: "hello"', "--count", "3", "spot:probe/x",
                      "tests.mesh.Note")
    equal(result.code, 0, f"exit code ({result})")
    client = mesh.client(node, "watch")
    harness.wait_until(lambda: client.log(probe("x")).log == "hello hello hello", "the messages arrive")


# Status: for people and for programs; exit code 0 only where a node serves.
def test_status(mesh):
    first = mesh.node("a", ("far",))
    node = mesh.node("b", ("probe",), peers=[first])
    node.wait_links("a")
    result = mesh.ctl("status", node.control)
    equal(result.code, 0, "exit code")
    for text in (node.status()["node_id"], "serving", "probe", "ready"):
        check(text in result.out, f"{text} is not in {result.out}")
    result = mesh.ctl("status", "--json", node.control)
    equal(result.code, 0, "exit code")
    status = json.loads(result.out)
    equal((status["name"], status["mesh"], status["channels"], status["spot_types"]),
          ("b", "shop", [], ["probe", "shy", "scribe"]), "status")
    node.stop()
    for path in (node.control, mesh.path("none"), "x" * 200):
        result = mesh.ctl("status", path)
        check(result.code == 1 and len(result.err.splitlines()) == 1 and path[:20] in result.err, f"status: {result}")


# A control socket that is spoken to wrongly answers or closes, and the node serves on.
def test_control_socket_survives_nonsense(mesh):
    import socket
    node = mesh.node("a")
    held = []
    for data in (b"", b"\n", b"what\n", b"x" * 100000, b"\0\xff\n", b"status", b"status\nstatus\n"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(20)
        connection.connect(node.control)
        try:
            connection.sendall(data)
        except OSError:
            pass
        held.append(connection)
    equal(node.status()["state"], "serving", "the state")
    for connection in held:
        connection.close()
    equal(node.status()["state"], "serving", "the state")


# check: a good configuration, bad ones, and the kernel.
def test_check(mesh):
    node = mesh.node("a", start=False)
    node.write_config()
    result = mesh.ctl("check", "--config", node.config_path)
    check(result.code == 0 and "well configured" in result.out, f"check: {result}")
    check("is a module, 'probe'" in result.out, f"check of the modules: {result}")
    good = node.config["modules"]
    for module, words in (("old_abi", "modules[0]: .*: built for module ABI"), ("no_module", "modules[0]: .*: not a zlink")):
        node.config["modules"] = [mesh.program(f"tests/mesh/{module}.so")]
        node.write_config()
        result = mesh.ctl("check", "--config", node.config_path)
        check(result.code == 1 and re.search(words.replace("[0]", r"\[0\]"), result.err), f"check of {module}: {result}")
    node.config["modules"] = good
    result = mesh.ctl("check")
    check(result.code == 0 and "io_uring" in result.out, f"check of the kernel: {result}")
    node.config["workers"] = "many"
    node.write_config()
    result = mesh.ctl("check", "--config", node.config_path)
    check(result.code == 1 and re.search(rf"{re.escape(node.config_path)}:\d+: workers: ", result.err),
          f"check of a bad value: {result}")
    node.config.update(workers="1", tls=mesh.certificate("b"))
    node.write_config()
    result = mesh.ctl("check", "--config", node.config_path)
    check(result.code == 1 and "name: " in result.err, f"check of another node's certificate: {result}")
    result = mesh.ctl("check", "--config", mesh.path("none.yaml"))
    check(result.code == 1 and "none.yaml" in result.err, f"check of no file: {result}")
    mesh.nodes.clear()


if __name__ == "__main__":
    harness.main(globals())
