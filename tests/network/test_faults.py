"""Two nodes with calls of every kind in both directions, and a network that fails them. Afterwards they are linked
again within the bound, every call flows, the sums are exact, and neither memory nor descriptors have grown.
"""
import contextlib
import signal
import sys
import threading
import time

# First: it finds the harness.
from fleet import BULK, LIVENESS_S, RECOVERY_S, REDIAL_S, SEND, SLACK_S, SMALL, YIELD, Fleet, Stream
import harness
from harness import check, equal, limit, wait_until, wire
from network import Network

PATIENT_MS = 40000  # longer than any fault from which TCP alone recovers
MEMORY_BYTES = 24 * 2**20


class Case:
    """What a test has of its two nodes."""

    def __init__(self, fleet, network):
        self.fleet, self.network = fleet, network
        self.nodes = list(fleet.members.values())
        self._unreachable = self.unreachable()

    def unreachable(self):
        """How often the nodes have said that a peer does not answer: once per outage."""
        return sum(node.stderr().count("zlink.peer.unreachable") for node in self.nodes)

    def lost(self):
        """How many links each has seen end."""
        return [node.losses(1)[other.name] for node, other in zip(self.nodes, reversed(self.nodes))]

    def last(self, seconds):
        """The fault lasts so long; both nodes are asked meanwhile how they are."""
        end = time.monotonic() + seconds
        wait_until(lambda: all(node.status() for node in self.nodes) and time.monotonic() >= end, "", 2 * seconds)

    def keep(self, seconds):
        """The fault lasts so long, and no link ends."""
        end = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= end or self.lost() != [0, 0], "", 2 * seconds)
        equal(self.lost(), [0, 0], "links that have ended")

    def until_given_up(self, within):
        """The fault lasts until both have given the link up; there may be another one already."""
        wait_until(lambda: all(self.lost()), lambda: f"both give their link up: {self.lost()}", within)

    def until_lost(self, within):
        """The fault lasts until both have given the link up, and one has failed to come back."""
        wait_until(lambda: all(not node.linked_to() & {"a", "b"} for node in self.nodes),
                   lambda: f"both give their link up: {[node.linked_to() for node in self.nodes]}", within)
        wait_until(lambda: self.unreachable() > self._unreachable, "a failed attempt to dial", REDIAL_S + SLACK_S)


@contextlib.contextmanager
def spoiled(mesh, fault, *, wire=False, bound=RECOVERY_S, stays=False, rounds=10, timeout_ms=3000, **load):
    """The body runs while the fault lasts. With `stays` nothing may end badly."""
    with Network(("a", "b"), wire) as network:
        fleet = Fleet(mesh, network.names, network, timeout_ms=timeout_ms, **load).start()
        files = {member.name: member.descriptors()[0] for member in fleet.live()}
        fleet.start_all_couriers()
        fleet.wait_progress(rounds // 2)
        memory = [member.memory_bytes() for member in fleet.live()]
        case = Case(fleet, network)
        begin = time.monotonic()
        wrong = fault(network, fleet)
        yield case
        before = fleet.progress()
        wrong.heal()
        healed = time.monotonic()
        fleet.wait_linked(bound)
        linked = time.monotonic()
        fleet.wait_progress(2, bound + timeout_ms / 1000, begin=before)
        moving = time.monotonic()
        fleet.wait_progress(rounds)
        fleet.rest()
        sums = fleet.sums()
        print(f"    fault {healed - begin:.1f} s; linked after {linked - healed:.1f} s, all kinds of calls after "
              f"{moving - healed:.1f} s; links lost {case.lost()}; {sums}", flush=True)
        if stays:
            equal(case.lost(), [0, 0], "links that have ended")
            equal(sums.failed(), {}, "calls that failed")
            equal(sums.lost, 0, "one-way messages that were lost")
        fleet.wait_tidy(files)
        grown = [member.memory_bytes() - was for member, was in zip(fleet.live(), memory)]
        print(f"    memory grew by {[round(bytes / 2**20, 1) for bytes in grown]} MiB", flush=True)
        check(mesh.sanitized or max(grown) < MEMORY_BYTES, f"memory grew by {grown} bytes")
        fleet.stop()


def half_of_the_link(lane):
    """A fault of one connection of the link that `a` has dialled."""
    def fault(network, fleet):
        return network.hole_of_connection("a", "b", fleet.members["b"].ports_of("a")[lane])

    return fault


@limit(180)
def test_loss_of_1_percent(mesh):
    with spoiled(mesh, lambda network, _: network.lose(1), stays=True, timeout_ms=PATIENT_MS) as case:
        case.fleet.wait_progress(200, 90, kinds=SMALL)


# So much is lost that calls may be late; TCP keeps the order and the links.
@limit(180)
def test_loss_of_10_percent(mesh):
    with spoiled(mesh, lambda network, _: network.lose(10)) as case:
        case.fleet.wait_progress(100, 90, kinds=SMALL)


# Short enough for TCP, which repeats itself after 3 and 6.2 s: nobody notices but the clock.
@limit(180)
def test_black_hole_for_4_seconds(mesh):
    with spoiled(mesh, lambda network, _: network.part("a"), stays=True, timeout_ms=PATIENT_MS) as case:
        case.keep(4)


@limit(180)
def test_tr50_tr53_black_hole_until_given_up(mesh):
    with spoiled(mesh, lambda network, _: network.part("a")) as case:
        case.until_lost(LIVENESS_S + SLACK_S)


# One direction is gone. The one who dials does not hear, …
@limit(180)
def test_tr50_one_way_partition_towards_the_dialer(mesh):
    with spoiled(mesh, lambda network, _: network.hole("b", "a"), listed={"b": ()}) as case:
        case.until_lost(LIVENESS_S + SLACK_S)


# … or is not heard.
@limit(180)
def test_tr50_one_way_partition_from_the_dialer(mesh):
    with spoiled(mesh, lambda network, _: network.hole("a", "b"), listed={"b": ()}) as case:
        case.until_lost(LIVENESS_S + SLACK_S)


# One of a link's two connections is gone, as where a middlebox has forgotten it. Completion has the probes, …
@limit(180)
def test_tr17_tr50_hole_of_the_completion_connection(mesh):
    with spoiled(mesh, half_of_the_link(1), listed={"b": ()}) as case:
        case.until_given_up(LIVENESS_S + SLACK_S)


# … Application is watched: 15 s of silence, looked for every 5 s.
@limit(180)
def test_tr17_hole_of_the_application_connection(mesh):
    with spoiled(mesh, half_of_the_link(0), listed={"b": ()}) as case:
        case.until_given_up(LIVENESS_S + 5 + SLACK_S)


# 1 kB/s is enough for a little.
@limit(180)
def test_slow_link(mesh):
    with spoiled(mesh, lambda network, _: network.slow("1kbps"), stays=True, timeout_ms=PATIENT_MS, rounds=4,
                 kinds=(YIELD, SEND), period_ms=2000) as case:
        case.keep(2 * LIVENESS_S)


# It is not enough for more than that; when there is room again, nothing hangs. (Whether the link lasts is a matter of
# chance: probes share what there is.)
@limit(180)
def test_slow_link_with_too_much(mesh):
    with spoiled(mesh, lambda network, _: network.slow("1kbps"), kinds=SMALL, bound=LIVENESS_S + SLACK_S) as case:
        case.last(2 * LIVENESS_S)


# The same with payloads that cannot be sent in their time.
@limit(180)
def test_slow_link_with_large_payloads(mesh):
    with spoiled(mesh, lambda network, _: network.slow("1kbps")) as case:
        case.last(2 * LIVENESS_S)


@limit(180)
def test_delay_of_200_ms(mesh):
    with spoiled(mesh, lambda network, _: network.on_wire(delay_s=0.2), wire=True, stays=True,
                 timeout_ms=PATIENT_MS) as case:
        case.fleet.wait_progress(40, 90, kinds=SMALL)


# Packets overtake each other, and each tenth comes twice.
@limit(180)
def test_reordering_and_doubles(mesh):
    with spoiled(mesh, lambda network, _: network.on_wire(jitter_s=0.05, doubled=0.1), wire=True, stays=True,
                 timeout_ms=PATIENT_MS) as case:
        case.fleet.wait_progress(100, 90, kinds=SMALL)


# A middlebox that resets every connection: seen at once, and tried again.
@limit(180)
def test_tr53_resets(mesh):
    with spoiled(mesh, lambda network, _: network.reset("a", "b"), bound=REDIAL_S + SLACK_S) as case:
        case.until_lost(SLACK_S)
        case.last(5)


class Deaf(harness.WireClient):
    """Serves a channel, and does not read what it is sent."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.hears = threading.Event()

    def _take_application(self, _):
        self.hears.wait()

    def close(self):
        self.hears.set()
        super().close()


# No fault: a peer that takes nothing for longer than that is heard all the same, and the link stays.
@limit(180)
def test_peer_that_does_not_read(mesh):
    fleet = Fleet(mesh, ("a",), bulk_period_ms=10, timeout_ms=100).start()  # buffers fill up soon
    node = fleet.members["a"]
    deaf = mesh._connect(Deaf, mesh.certificate("b"), node, name="b",
                         hello={"role": wire.ROLE_SERVER, "channels": [("inbox-b", 100)]})
    node.wait_links("b")
    fleet.start_courier(mesh.client(node), Stream("a", 1, "b", BULK))

    def unsent():
        return next(link["outbound_bytes"] for link in node.links() if link["name"] == "b")

    wait_until(lambda: unsent() > 0, "the kernel takes no more")
    end = time.monotonic() + 2 * LIVENESS_S
    wait_until(lambda: time.monotonic() > end or node.losses(1)["b"], "", 3 * LIVENESS_S)
    equal(node.losses(1)["b"], 0, "links that have ended")
    check(unsent() > 0, "the peer has read")
    deaf.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing is left behind
    harness.main(globals())
