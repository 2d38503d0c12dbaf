"""What a node tells about itself as it happens, and its end over the control socket."""
import json
import signal
import socket
import subprocess

import harness
from harness import FAR, SLOW, check, equal, pb, probe, wait_until

SLOTS = 256


class Watcher:
    """One who asks over the control socket and reads when the test does."""

    def __init__(self, node, command=b"watch\n", receive_bytes=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(harness.WAIT_S)
        self.socket.connect(node.control)
        self.socket.sendall(command)
        self.file = self.socket.makefile("r", encoding="utf-8")

    def read(self):
        line = self.file.readline()
        return json.loads(line) if line else None

    def until(self, **wanted):
        while (event := self.read()) is not None:
            if all(event.get(key) == value for key, value in wanted.items()):
                return event
        raise harness.Failure(f"the end, and no event with {wanted}")

    def close(self):
        self.file.close()
        self.socket.close()


def change_weights(node, count):
    """`count` events."""
    for number in range(count):
        answer = Watcher(node, f"weight {number % 5000 + 1} far\n".encode())
        check("weight" in answer.read(), "the weight was changed")
        answer.close()


# Snapshot first, then every change, numbered without a gap.
def test_what_happens_is_told(mesh):
    node = mesh.node("a")
    watcher = Watcher(node)
    first = watcher.read()
    equal(first["snapshot"]["state"], "serving", "the snapshot")
    last = first["sequence"]
    client = mesh.client(node)
    event = watcher.until(event="link_ready")
    equal((event["name"], event["sequence"], event["lost"]), ("tool", last + 1, 0), "the new link")
    change_weights(node, 3)
    for number in range(3):
        event = watcher.read()
        equal((event["event"], event["channel"], event["weight"], event["sequence"]),
              ("weight", "far", number + 1, last + 2 + number), "a weight")
    client.close()
    equal(watcher.until(event="link_lost")["sequence"], last + 5, "the link's end")
    equal(node.status()["sequence"], last + 5, "the status says how far it has come")
    node.stop()
    equal([watcher.until(event="state")["state"] for _ in range(2)], ["draining", "stopped"], "the end")
    equal(watcher.read(), None, "nothing behind it")
    watcher.close()


# What peers say of themselves: weights, that they are paused, that they drain.
def test_what_peers_say_is_told(mesh):
    a = mesh.node("a", ("probe",))
    watcher = Watcher(a)
    watcher.read()
    b = mesh.node("b", ("far",), peers=[a])
    event = watcher.until(event="link_ready", name="b")
    equal((event["role"], event["weights"]["far"], event["draining"], event["paused"]), ("server", 100, False, False),
          "the new link")
    change_weights(b, 1)
    equal(watcher.until(event="link_changed", name="b")["weights"]["far"], 1, "its weight")
    client = mesh.client(a)
    for epoch, paused in enumerate((True, False), 1):
        client.say_paused(paused, epoch)
        equal(watcher.until(event="link_changed", name="tool")["paused"], paused, "whether the client is paused")
    hand, holder = mesh.hand(b), mesh.client(b, "holder")
    waiting = holder.start(SLOW, pb.WaitReq(tag="A", how=pb.ASYNC, channel="latch"))
    call = hand.take("A")
    b.signal(signal.SIGTERM)
    event = watcher.until(event="link_changed", name="b")
    equal((event["draining"], event["lost"]), (True, 0), "b drains")
    call.reply()
    equal(waiting.result().status, "Ok", "the handler that held b")
    equal(watcher.until(event="link_lost")["peer"], event["peer"], "the end of b")
    watcher.close()


# What becomes of a configured address: out of reach, then found to be not required.
def test_what_becomes_of_an_address_is_told(mesh):
    address = f"127.0.0.1:{harness.free_ports(1)[0]}"
    far = mesh.node("b", ("far",), listen=address)
    a = mesh.node("a", (), peers=[address], object_role="client")
    a.wait_links("b")
    watcher = Watcher(a)
    watcher.read()
    far.kill()
    equal(watcher.until(event="link_lost")["name"], "b", "the link")
    equal(watcher.until(event="peer")["state"], "dialling", "the address, once for all attempts")
    mesh.node("c", (), listen=address, object_role="client")
    event = watcher.until(event="peer")
    equal((event["state"], event["address"], event["lost"]), ("not_required", address, 0), "the address")
    watcher.close()


# Links and weights of a ClientServer channel say of which.
def test_what_happens_in_client_server_is_told(mesh):
    a = mesh.node("a", ("far",), client_servers=[{"channel": "far", "role": "server", "listen": "127.0.0.1:0"}])
    watcher = Watcher(a)
    address = watcher.read()["snapshot"]["client_servers"][0]["listen"]
    b = mesh.node("b", ("probe",), client_servers=[{"channel": "far", "role": "client", "servers": [address]}])
    equal(watcher.until(event="link_ready", name="b")["client_server"], "far", "the link at the server")
    there = Watcher(b)
    wait_until(lambda: b.status()["client_servers"][0]["links"][0]["state"] == "ready", "the link at the client")
    change_weights(a, 1)
    equal(watcher.until(event="weight")["channel"], "far", "the server's own weight")
    event = there.until(event="link_changed", name="a")
    equal((event["client_server"], event["weights"]), ("far", {"far": 1}), "the weight at the client")
    for one in (watcher, there):
        one.close()


# EX-37, EX-38: an observer that does not read slows nobody down: calls, other observers and the control socket go on. It
# has lost events then, as the gap and the count show, and a new snapshot tells what it has missed.
@harness.limit(120)
def test_ex37_ex38_a_slow_observer(mesh):
    node = mesh.node("a")
    client = mesh.client(node)
    slow, quick = Watcher(node, receive_bytes=4096), Watcher(node)
    lost = "zlink.status.events_lost"
    total = 0
    while node.counter(lost) < 2 * SLOTS:
        check(total < 40000, "events that one who does not read has room for")
        change_weights(node, 500)
        total += 500
        client.ask(probe("x"), pb.PingReq())
        client.ask(FAR, pb.PingReq())
        for _ in range(500):
            event = quick.until(event="weight")
            equal(event["lost"], 0, "events that the quick one has lost")
    now = node.status()["sequence"]
    equal(event["sequence"], now, "the quick one has come as far as the node")
    before, gaps, counts = slow.read()["sequence"], 0, []

    def read_on():
        nonlocal before, gaps
        event = slow.read()
        gaps += event["sequence"] - before - 1
        before = event["sequence"]
        counts.append(event["lost"])

    for _ in range(now - before - node.counter(lost)):  # all that was kept for it
        read_on()
    change_weights(node, 1)
    while before < now + 1:
        read_on()
    check(gaps > 0, "a gap")
    equal(gaps, counts[-1], "the gap and the count of what was lost")
    equal(counts, sorted(counts), "the count grows")
    again = Watcher(node)
    snapshot = again.read()
    equal((snapshot["sequence"], snapshot["snapshot"]["weights"]["far"]), (now + 1, 1), "the whole state, asked anew")
    for watcher in (slow, quick, again):
        watcher.close()
    wait_until(lambda: node.counter("zlink.status.observers") == 0, "nobody watches any more")


# As many may watch as there are places, and one more is told so.
def test_observers_are_bounded(mesh):
    node = mesh.node("a")
    watchers = [Watcher(node) for _ in range(8)]
    for watcher in watchers:
        check("snapshot" in watcher.read(), "a snapshot")
    refused = Watcher(node)
    check("error" in refused.read(), "the ninth")
    equal(refused.read(), None, "and nothing more")
    watchers[3].close()
    wait_until(lambda: node.counter("zlink.status.observers") == 7, "a place is free")
    check("snapshot" in Watcher(node).read(), "a snapshot")
    for watcher in watchers + [refused]:
        watcher.close()


def held(mesh, **config):
    node = mesh.node("a", **config)
    hand, client = mesh.hand(node), mesh.client(node)
    waiting = client.start(probe("held"), pb.WaitReq(tag="A", how=pb.ASYNC, channel="latch"))
    return node, hand.take("A"), waiting


def accepted(node):
    """Connections that the control socket has, as the kernel sees them."""
    with open("/proc/net/unix", encoding="ascii", errors="replace") as file:
        return sum(line.split()[5:6] == ["03"] and line.split()[-1] == node.control for line in file)


def stop_command(mesh, node):
    return subprocess.Popen([mesh.program("ctl/zlinkctl"), "stop", node.control], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


# EX-64: many may ask for the stop, at once and again; it is one stop, they all hear how it ended, and one that goes away
# changes nothing. EX-62: what had begun ends first.
def test_ex62_ex64_one_stop_for_all(mesh):
    node, call, waiting = held(mesh)
    first, gone = Watcher(node, b"stop\n"), Watcher(node, b"stop\n")
    wait_until(lambda: node.status()["state"] == "draining", "the node drains")
    second, command = Watcher(node, b"stop\n"), stop_command(mesh, node)
    gone.close()
    wait_until(lambda: accepted(node) >= 3, "both wait, and zlinkctl")
    equal(node.status()["state"], "draining", "asked again")
    check(not waiting.done(), "the handler has ended before its reply")
    call.reply()
    equal(waiting.result().status, "Ok", "the handler")
    for waiter in (first, second):
        equal(waiter.read(), {"outcome": "Stopped", "reason": "None"}, "the outcome")
        equal(waiter.read(), None, "and nothing more")
        waiter.close()
    out, err = command.communicate(timeout=harness.WAIT_S)
    equal((out, err, command.returncode), ("Stopped None\n", "", 0), "zlinkctl stop")
    node.wait_exit(0)


# EX-63, EX-64: a stop that takes too long is forced, for all who wait.
def test_ex63_ex64_a_forced_stop(mesh):
    node, _, _ = held(mesh, shutdown_timeout="300ms")
    waiters = [Watcher(node, b"stop\n") for _ in range(2)]
    command = stop_command(mesh, node)
    for waiter in waiters:
        equal(waiter.read(), {"outcome": "ForceStopped", "reason": "DeadlineExceeded"}, "the outcome")
        waiter.close()
    out, err = command.communicate(timeout=harness.WAIT_S)
    equal((out, command.returncode), ("ForceStopped DeadlineExceeded\n", 1), "zlinkctl stop")
    node.wait_log("zlink.node.stopped", "outcome=ForceStopped", "reason=DeadlineExceeded")
    node.wait_exit(1)


if __name__ == "__main__":
    harness.main(globals())
