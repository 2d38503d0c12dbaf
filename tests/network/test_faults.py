"""Two nodes with calls of every kind in both directions, and a network that fails them. Afterwards they are linked again
within the bound, every call flows, the sums are exact, and neither memory nor descriptors have grown.
"""
import contextlib
import time

from fleet import EVERY, LIVENESS_S, RECOVERY_S, REDIAL_S, SLACK_S, SMALL, Fleet  # first: it finds the harness
import harness
from harness import check, equal, limit, wait_until
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
        return [node.losses(1, other.name) for node, other in zip(self.nodes, reversed(self.nodes))]

    def keep(self, seconds):
        """The fault lasts, and no link ends."""
        end = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= end or self.lost() != [0, 0], "", seconds + 5)
        equal(self.lost(), [0, 0], "links that have ended")

    def until_lost(self, within):
        """The fault lasts until both have given the link up, and one has failed to come back."""
        wait_until(lambda: all(not node.linked_to() & {"a", "b"} for node in self.nodes),
                   lambda: f"both give their link up: {[node.linked_to() for node in self.nodes]}", within)
        wait_until(lambda: self.unreachable() > self._unreachable, "a failed attempt to dial", REDIAL_S + SLACK_S)


@contextlib.contextmanager
def spoiled(mesh, fault, *, wire=False, kinds=EVERY, timeout_ms=3000, bound=RECOVERY_S, stays=False, listed=None):
    """The body runs while the fault lasts. With `stays` nothing may end badly."""
    with Network(("a", "b"), wire) as network:
        fleet = Fleet(mesh, network.names, network, kinds=kinds, timeout_ms=timeout_ms, listed=listed).start()
        files = {member.name: member.descriptors()[0] for member in fleet.live()}
        fleet.start_all_couriers()
        fleet.wait_progress(5)
        memory = [member.memory_bytes() for member in fleet.live()]
        case = Case(fleet, network)
        begin = time.monotonic()
        wrong = fault(network)
        yield case
        before = fleet.progress()
        wrong.heal()
        healed = time.monotonic()
        fleet.wait_linked(bound)
        linked = time.monotonic()
        fleet.wait_progress(2, bound + timeout_ms / 1000, begin=before)
        moving = time.monotonic()
        fleet.wait_progress(10)
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
        check(max(grown) < MEMORY_BYTES, f"memory grew by {grown} bytes")
        fleet.stop()


@limit(180)
def test_loss_of_1_percent(mesh):
    with spoiled(mesh, lambda network: network.lose(1), stays=True, timeout_ms=PATIENT_MS) as case:
        case.fleet.wait_progress(200, 90, kinds=SMALL)


# So much is lost that calls may be late; TCP keeps the order and the links.
@limit(180)
def test_loss_of_10_percent(mesh):
    with spoiled(mesh, lambda network: network.lose(10)) as case:
        case.fleet.wait_progress(50, 90, kinds=SMALL)


# Shorter than liveness: nobody notices but the clock.
@limit(180)
def test_black_hole_for_6_seconds(mesh):
    with spoiled(mesh, lambda network: network.part("a"), stays=True, timeout_ms=PATIENT_MS) as case:
        case.keep(6)


@limit(180)
def test_black_hole_until_given_up(mesh):
    with spoiled(mesh, lambda network: network.part("a")) as case:
        case.until_lost(LIVENESS_S + SLACK_S)


# One direction is gone. The one who dials does not hear, …
@limit(180)
def test_one_way_partition_towards_the_dialer(mesh):
    with spoiled(mesh, lambda network: network.hole("b", "a"), listed={"b": ()}) as case:
        case.until_lost(LIVENESS_S + SLACK_S)


# … or is not heard.
@limit(180)
def test_one_way_partition_from_the_dialer(mesh):
    with spoiled(mesh, lambda network: network.hole("a", "b"), listed={"b": ()}) as case:
        case.until_lost(LIVENESS_S + SLACK_S)


# 1 kB/s: probes get through, because they do not stand behind the calls.
@limit(180)
def test_slow_link(mesh):
    with spoiled(mesh, lambda network: network.slow("1kbps"), kinds=SMALL) as case:
        case.keep(2 * LIVENESS_S)


# The same with payloads that cannot be sent in their time.
@limit(180)
def test_slow_link_with_large_payloads(mesh):
    with spoiled(mesh, lambda network: network.slow("1kbps")) as case:
        end = time.monotonic() + 2 * LIVENESS_S
        wait_until(lambda: time.monotonic() > end, "")


@limit(180)
def test_delay_of_200_ms(mesh):
    with spoiled(mesh, lambda network: network.on_wire(delay_s=0.2), wire=True, stays=True,
                 timeout_ms=PATIENT_MS) as case:
        case.fleet.wait_progress(40, 90, kinds=SMALL)


# Packets overtake each other, and each tenth comes twice.
@limit(180)
def test_reordering_and_doubles(mesh):
    with spoiled(mesh, lambda network: network.on_wire(jitter_s=0.05, doubled=0.1), wire=True, stays=True,
                 timeout_ms=PATIENT_MS) as case:
        case.fleet.wait_progress(100, 90, kinds=SMALL)


# A middlebox that resets every connection: seen at once, and tried again.
@limit(180)
def test_resets(mesh):
    with spoiled(mesh, lambda network: network.reset("a", "b"), bound=REDIAL_S + SLACK_S) as case:
        case.until_lost(SLACK_S)


if __name__ == "__main__":
    harness.main(globals())
