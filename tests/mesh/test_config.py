"""Nodes that must not start: one line that says which file, which key and why; exit code 1; nothing left behind."""
import os
import re
import socket

import harness
from harness import check, equal, pb, probe


class Broken:
    """A configuration that is good but for what a test does to it."""

    def __init__(self, mesh):
        self.mesh = mesh
        self.config = mesh.config("a", ())
        self.path = mesh.path("broken.yaml")
        self.text = None

    def start(self, *wrapper):
        with open(self.path, "wb") as file:
            file.write(self.text if self.text is not None else harness.yaml_of(self.config).encode())
        files = set(os.listdir(self.mesh.folder))
        result = self.mesh.run(*wrapper, self.mesh.program("node/zlink-node"), "--config", self.path)
        left = set(os.listdir(self.mesh.folder)) - files
        check(not left, f"left behind: {left}")
        return result

    def refusal(self, *wrapper):
        """The one line of the refusal. Log lines may stand before it, where the node had got further."""
        result = self.start(*wrapper)
        equal(result.code, 1, f"exit code ({result.err})")
        equal(result.out, "", "what it printed")
        lines = result.err.splitlines()
        refusals = [line for line in lines if line.startswith("zlink-node: ")]
        equal(len(refusals), 1, f"lines of refusal in {result.err!r}")
        equal(lines[-1:], refusals, "the last line")
        return refusals[0]

    def refused_key(self, key, *texts):
        """FILE[:LINE]: KEY: reason, and nothing else on stderr."""
        line = self.refusal()
        pattern = rf"zlink-node: {re.escape(self.path)}(:\d+)?: {re.escape(key)}: \S.*"
        check(re.fullmatch(pattern, line), f"for {key}: {line!r}")
        for text in texts:
            check(text in line, f"{text!r} is not in {line!r}")
        return line


def variant(test_mesh, /, **changes):
    broken = Broken(test_mesh)
    for key, value in changes.items():
        if value is None:
            broken.config.pop(key, None)
        else:
            broken.config[key] = value
    return broken


# The configuration that all others differ from does start.
def test_good_config_starts(mesh):
    node = mesh.node("a", ())
    node.stop()


# Each key with a value that it may not have.
def test_bad_values_name_their_key(mesh):
    tls = mesh.certificate("a")
    cases = [
        ("mesh", {"mesh": "no blanks"}), ("mesh", {"mesh": None}), ("mesh", {"mesh": "m" * 65}),
        ("name", {"name": "a/b"}), ("name", {"name": None}),
        ("listen", {"listen": "127.0.0.1"}), ("listen", {"listen": "127.0.0.1:65536"}), ("listen", {"listen": ":1"}),
        ("listen", {"listen": "0.0.0.0:0"}), ("advertise", {"advertise": "127.0.0.1:0"}),
        ("advertise", {"listen": None, "advertise": "127.0.0.1:1"}),
        ("control", {"control": "x" * 200}), ("modules[0]", {"modules": ["no-such.so"]}), ("modules", {"modules": "x"}),
        ("modules[1]", {"modules": [mesh.module("far")] * 2}), ("modules[0]", {"modules": [mesh.folder]}),
        ("peers[0]", {"peers": ["nobody"]}), ("peers[1]", {"peers": ["127.0.0.1:9"] * 2}),
        ("peers[0]", {"peers": ["0.0.0.0:1"]}), ("spots[0].node", {"spots": [{"type": "x", "node": "a b"}]}),
        ("spots[1].type", {"spots": [{"type": "x", "node": "b"}] * 2}), ("spots[0].node", {"spots": [{"type": "x"}]}),
        ("transport", {"transport": "plain"}), ("transport", {"transport": "true"}),
        ("tls", {"tls": None}), ("tls", {"transport": "plain-without-encryption-or-authentication"}),
        ("tls.ca", {"tls": {**tls, "ca": "no-such.pem"}}), ("tls.key", {"tls": {**tls, "key": "no-such.key"}}),
        ("tls.certificate", {"tls": {**tls, "certificate": "no-such.pem"}}),
        ("tls.key", {"tls": {key: tls[key] for key in ("ca", "certificate")}}),
        ("workers", {"workers": "-1"}), ("workers", {"workers": "1025"}), ("workers", {"workers": "four"}),
        ("request_timeout", {"request_timeout": "30"}), ("request_timeout", {"request_timeout": "0s"}),
        ("send_timeout", {"send_timeout": "1h"}), ("send_timeout", {"send_timeout": "-1s"}),
        ("send_timeout", {"send_timeout": "0s"}), ("send_timeout", {"send_timeout": "infinite"}),
        ("limits.outbound_bytes", {"limits": {"outbound_bytes": "0B"}}),
        ("limits.inbound_bytes", {"limits": {"inbound_bytes": "1KiB"}}),
        ("shutdown_timeout", {"shutdown_timeout": "1.5s"}), ("owner_time_budget", {"owner_time_budget": "11s"}),
        ("limits.message_bytes", {"limits": {"message_bytes": "1B"}}), ("limits.spots", {"limits": {"spots": "0"}}),
        ("limits.message_bytes", {"limits": {"message_bytes": "1024"}}),
        ("limits.pending_operations", {"limits": {"pending_operations": "0x10"}}),
        ("limits.stack_bytes", {"limits": {"stack_bytes": "1KiB"}}),
        ("limits.application_messages", {"limits": {"application_messages": "0"}}),
        ("limits.application_bytes", {"limits": {"application_bytes": "1MiB"}}),
        ("limits.max_queued_application_jobs", {"limits": {"max_queued_application_jobs": "many"}}),
        ("log.level", {"log": {"level": "loud"}}), ("log.level", {"log": {"level": "on"}}),
    ]
    for key, changes in cases:
        variant(mesh, **changes).refused_key(key)


# Keys that do not exist, at each level.
def test_unknown_keys_are_named(mesh):
    for key, changes in (("port", {"port": "7"}), ("limits.colour", {"limits": {"colour": "1"}}),
                         ("tls.password", {"tls": {**mesh.certificate("a"), "password": "x"}}),
                         ("log.file", {"log": {"file": "x"}})):
        line = variant(mesh, **changes).refusal()
        check(key.rsplit(".", 1)[-1] in line and "broken.yaml:" in line, f"for {key}: {line!r}")


# Files that are no configuration at all.
def test_files_that_are_no_configuration(mesh):
    for text in (b"", b"\n# only a comment\n", b"- a\n- b\n", b"just text\n", b"mesh: [\n", b"mesh: a\nmesh: b\n",
                 b"\tmesh: a\n", b"mesh: \xff\xfe\n", b"\0\0\0", b"mesh: &x a\nname: *x\n", b"mesh: a\n---\nname: b\n",
                 b"mesh: {a: b}\n", b"name: !!int 5\nmesh: a\n", b"# " + b"x" * 2**21):
        broken = Broken(mesh)
        broken.text = text
        line = broken.refusal()
        check(line.startswith(f"zlink-node: {broken.path}"), f"for {text[:40]!r}: {line!r}")
    for path in (mesh.path("missing.yaml"), mesh.folder, "/dev/null"):
        result = mesh.run(mesh.program("node/zlink-node"), "--config", path)
        equal((result.code, result.out), (1, ""), f"exit code and output for {path}")
        check(re.fullmatch(rf"zlink-node: {re.escape(path)}.*: \S.*\n", result.err), f"for {path}: {result.err!r}")


# The program's own arguments.
def test_arguments(mesh):
    node = mesh.program("node/zlink-node")
    for arguments in ((), ("--config",), ("--what",), ("--config", "x", "y")):
        result = mesh.run(node, *arguments)
        equal(result.code, 2, f"exit code for {arguments}")
        check(result.err, f"nothing is said for {arguments}")
    equal(mesh.run(node, "--version").code, 0, "exit code of --version")
    equal(mesh.run(node, "--help").code, 0, "exit code of --help")


# Modules: of another ABI (none of its code runs), no module, no shared object, one that will not start.
def test_bad_modules(mesh):
    text = mesh.path("text.so")
    with open(text, "w", encoding="ascii") as file:
        file.write("no shared object\n")
    for module, words in ((mesh.module("old_abi"), ("ABI",)), (mesh.module("no_module"), ("not a zlink module",)),
                          (text, ("cannot be loaded",)), (mesh.module("refusing"), ("DataLost", "refusing"))):
        line = variant(mesh, modules=[module]).refusal()
        # A channel that refuses to start is no longer a matter of one file.
        setting = ".yaml: modules: " if "refusing" in module else ".yaml: modules[0]: "
        for word in (setting, *words):
            check(word in line, f"for {module}: {line!r}")
        if "refusing" not in module:
            check(module in line, f"the file is not named: {line!r}")
    # Two modules that register the same names.
    twin = mesh.path("twin.so")
    with open(mesh.module("far"), "rb") as source, open(twin, "wb") as copy:
        copy.write(source.read())
    line = variant(mesh, modules=[mesh.module("far"), twin]).refusal()
    check("far" in line and "modules[1]: " in line and twin in line, f"for two modules with one channel: {line!r}")


# Certificates: of another node, of another mesh, over, not yet valid, without an identity; a key that others can read
# or that belongs to somebody else; files that are no PEM.
def test_bad_certificates(mesh):
    good, other = mesh.certificate("a"), mesh.certificate("b")
    loose = mesh.path("loose.key")
    with open(good["key"], "rb") as source, open(loose, "wb") as copy:
        copy.write(source.read())
    os.chmod(loose, 0o640)
    text = mesh.path("text.pem")
    with open(text, "w", encoding="ascii") as file:
        file.write("no PEM\n")
    os.chmod(text, 0o600)
    past = mesh.forge("past", "URI:zlink://shop/a", days=(-9, -2))
    future = mesh.forge("future", "URI:zlink://shop/a", days=(2, 9))
    cases = [
        (other, "tls.certificate", ("node b",)),
        (mesh.forge("far", "URI:zlink://other/a"), "tls.certificate", ("other",)),
        (past, "tls.certificate", (past["certificate"], "expired")),
        (future, "tls.certificate", (future["certificate"],)),
        (mesh.forge("none", "DNS:a"), "tls.certificate", ("none.pem",)),
        ({**good, "key": loose}, "tls.key", (loose,)), ({**good, "key": other["key"]}, "tls.key", (other["key"],)),
        ({**good, "ca": text}, "tls.ca", (text,)), ({**good, "certificate": text}, "tls.certificate", (text,)),
        ({**good, "key": text}, "tls.key", (text,)),
        ({**good, "ca": mesh.certificate("a", folder="strangers")["ca"]}, "tls.", ()),
    ]
    for tls, setting, words in cases:
        line = variant(mesh, tls=tls).refusal()
        for word in (f".yaml: {setting}", *words):
            check(word in line, f"{word!r} is not in {line!r}")


# A port that is taken, an address that is not this machine's, a control socket that another node listens on.
def test_taken_places(mesh):
    taken = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    line = variant(mesh, listen=address).refusal()
    check(".yaml: listen: " in line and address in line and "in use" in line, f"for a taken port: {line!r}")
    taken.close()
    line = variant(mesh, listen="192.0.2.1:7").refusal()
    check(".yaml: listen: " in line and "192.0.2.1:7" in line, f"for a foreign address: {line!r}")

    node = mesh.node("other")
    line = variant(mesh, control=node.control).refusal()
    check(".yaml: control: " in line and node.control in line, f"for a control socket that is in use: {line!r}")
    equal(node.status()["state"], "serving", "the node that listens there")
    line = variant(mesh, control=mesh.path("no-such-folder/x.sock")).refusal()
    check("no-such-folder/x.sock" in line, f"for a control socket without a folder: {line!r}")
    mesh_file = mesh.path("file.sock")
    with open(mesh_file, "w", encoding="ascii") as file:
        file.write("mine\n")
    line = variant(mesh, control=mesh_file).refusal()
    check(mesh_file in line, f"for a file in the socket's place: {line!r}")
    with open(mesh_file, encoding="ascii") as file:
        equal(file.read(), "mine\n", "the file in the socket's place")


# A socket file that a killed node has left is taken over; the new one is for its owner alone.
def test_stale_control_socket_is_replaced(mesh):
    node = mesh.node("a")
    equal(os.stat(node.control).st_mode & 0o777, 0o600, "the socket's mode")
    node.kill()
    check(os.path.exists(node.control), "a killed node cannot remove its socket")
    node.start()
    equal(os.stat(node.control).st_mode & 0o777, 0o600, "the socket's mode")
    equal(mesh.client(node).ask(probe("x"), pb.PingReq()).owner, "x", "a call")


# A ring that is refused, as container runtimes do it: one line with the cause.
def test_refused_ring(mesh):
    deny = mesh.program("tests/mesh/deny_ring")
    for error, words in (("EPERM", ("seccomp",)), ("ENOSYS", ())):
        line = Broken(mesh).refusal(deny, error)
        for word in ("io_uring", *words):
            check(word in line, f"{word!r} is not in {line!r} for {error}")
        result = mesh.run(deny, error, mesh.program("ctl/zlinkctl"), "check")
        check(result.code == 1 and "io_uring" in result.err and len(result.err.splitlines()) == 1,
              f"zlinkctl check for {error}: {result}")


if __name__ == "__main__":
    harness.main(globals())
