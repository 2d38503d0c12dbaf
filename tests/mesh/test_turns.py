"""What a module sees of turns: who runs while somebody waits, in which order handlers go on, and how waits end."""
import random
import threading

import harness
from harness import FAR, SLOW, Channel, Spot, api, check, equal, pb, probe, raises, wait_until

YIELDS = (pb.YIELD, pb.YIELD_THEN)
HOLDS = (pb.ASYNC, pb.ASYNC_THEN)
LATE = "zlink.replies.late"
ANSWERED = "zlink.replies.received"


def wait(tag, how, channel="latch", **more):
    return pb.WaitReq(tag=tag, how=how, channel=channel, **more)


def one_node(mesh, **config):
    """A node with one worker, so that whoever really blocked would block everybody; a hand; a client."""
    node = mesh.node("a", workers=1, **config)
    return node, mesh.hand(node), mesh.client(node)


def answered(node, call, message=None):
    """Replies, and waits until the node has taken the reply: what it wakes has its place in the queue."""
    before = node.counter(ANSWERED)
    call.reply(message)
    node.wait_counter(ANSWERED, before + 1)


def log_of(client, target):
    found = client.log(target)
    equal(found.overlaps, 0, f"overlapping turns of {target}")
    return found.log


# ---- who runs meanwhile ----

# EX-21: while a handler waits with yield, other requests to its own Spot complete.
def test_ex21_yield_lets_the_same_spot_run(mesh):
    _, hand, client = one_node(mesh)
    for how in YIELDS:
        spot = probe(f"yield-{how}")
        waiting = client.start(spot, wait("A", how))
        call = hand.take("A")
        client.ask(spot, pb.PingReq(tag="B"))
        client.ask(spot, pb.PingReq(tag="C"))
        check(not waiting.done(), "the waiting handler has ended before its reply")
        call.reply()
        equal(waiting.result().status, "Ok", "the wait")
        equal(log_of(client, spot), "A+ B C A-", "the order")


# EX-18: while a handler waits with async, nothing else of its Spot runs; other Spots do.
def test_ex18_async_holds_the_spot_and_no_other(mesh):
    _, hand, client = one_node(mesh)
    for how in HOLDS:
        spot = probe(f"async-{how}")
        waiting = client.start(spot, wait("A", how))
        call = hand.take("A")
        queued = [client.start(spot, pb.PingReq(tag=tag)) for tag in "BC"]
        client.fence()
        for other in range(20):
            client.ask(probe(f"other-{other}"), pb.PingReq(tag="X"))
        client.ask(FAR, pb.PingReq(tag="X"))
        check(not waiting.done() and not any(ping.done() for ping in queued), "somebody ran in a held Spot")
        call.reply()
        equal([waiting.result().status] + [type(ping.result()).__name__ for ping in queued],
              ["Ok", "PingRes", "PingRes"], "the ends")
        equal(log_of(client, spot), "A+ A- B C", "the order")


# EX-20: a turn that is held still receives its reply, although so much stands behind it that no permit is left and the
# node takes nothing more from its peers (EX-66).
def test_ex20_held_turn_receives_its_reply(mesh):
    node, hand, client = one_node(mesh)
    spot = probe("held")
    waiting = client.start(spot, wait("A", pb.ASYNC))
    call = hand.take("A")
    client.obeys_flow_state = False
    queued = [client.start(spot, pb.PingReq()) for _ in range(500)]
    node.wait_counter("zlink.host.application_job_queue.capacity_waits", 1)
    call.reply(pb.LatchRes(number=77))
    result = waiting.result()
    equal((result.status, result.number), ("Ok", 77), "the wait")
    equal({ping.outcome() for ping in queued}, {"Ok"}, "the requests behind it")


# EX-21: a resumed handler goes on in a new turn at the back of the queue, and sees what others have changed.
def test_ex21_resume_goes_to_the_back(mesh):
    node, hand, client = one_node(mesh)
    for how in YIELDS:
        for hold in HOLDS:
            spot = probe(f"back-{how}-{hold}")
            first = client.start(spot, wait("A", how, amount=1))
            call_a = hand.take("A")
            second = client.start(spot, wait("B", hold, amount=10))
            call_b = hand.take("B")
            pings = [client.start(spot, pb.PingReq(tag=tag)) for tag in "CD"]
            client.fence()
            answered(node, call_a)
            last = client.start(spot, pb.PingReq(tag="E"))
            client.fence()
            check(not first.done(), "a handler went on through a held gate")
            call_b.reply()
            equal(second.result().total, 10, "the total after B")
            equal(first.result().total, 11, "the total that A saw")
            for ping in pings + [last]:
                ping.result()
            equal(log_of(client, spot), "A+ B+ B- C D A- E", "the order")


# Handlers that wait together go on in the order of their replies, not of their starts.
def test_resumes_come_in_the_order_of_replies(mesh):
    node, hand, client = one_node(mesh)
    spot = probe("order")
    tags = [f"h{index}" for index in range(8)]
    started = [client.start(spot, wait(tag, YIELDS[index % 2])) for index, tag in enumerate(tags)]
    calls = hand.take_all(len(tags))
    order = tags[::-1][:4] + tags[:4]
    for tag in order:
        answered(node, calls[tag])
    for request in started:
        equal(request.result().status, "Ok", "the wait")
    equal(log_of(client, spot), " ".join([tag + "+" for tag in tags] + [tag + "-" for tag in order]), "the order")


# ---- no overlap, no lost update ----

# EX-19: N concurrent handlers that read, wait and write add up to N. Held: read before the wait; yielded: after it.
def test_ex19_no_update_is_lost(mesh):
    mesh.node("b", ("far",))
    node = mesh.node("a", ("probe",), peers=mesh.nodes[:1])
    node.wait_links("b")
    client = mesh.client(node)
    for how in HOLDS + YIELDS:
        spot = probe(f"sum-{how}")
        requests = [client.start(spot, wait("", how, "far", amount=1, read_before=how in HOLDS)) for _ in range(200)]
        equal([request.result().status for request in requests], ["Ok"] * 200, "the waits")
        found = client.log(spot)
        equal((found.total, found.overlaps), (200, 0), "total and overlaps")


# The same with a handler that is wrong on purpose: state from before a yield is stale. The test above can fail.
def test_ex19_stale_state_does_lose_updates(mesh):
    _, hand, client = one_node(mesh)
    spot = probe("stale")
    requests = [client.start(spot, wait(tag, pb.YIELD, amount=1, read_before=True)) for tag in "AB"]
    for call in hand.take_all(2).values():
        call.reply()
    for request in requests:
        request.result()
    equal(client.log(spot).total, 1, "the total of two handlers that did not read again")


# Turns of one Spot never overlap, with every kind of wait in the mix and replies in any order.
def test_turns_never_overlap(mesh):
    node = mesh.node("a", workers=4)
    hand, client = mesh.hand(node), mesh.client(node)
    chance = random.Random(7)
    waiting, lock = [], threading.Lock()

    def answer(call):
        with lock:
            waiting.append(call)
            if len(waiting) < 4:
                return
            chance.shuffle(waiting)
            ready, waiting[:] = waiting[1:], waiting[:1]
        for other in ready:
            other.reply()

    hand.answer = answer
    spots = [probe(f"mix-{index}") for index in range(5)]
    requests = []
    for index in range(400):
        requests.append(client.start(spots[index % 5], wait("", (HOLDS + YIELDS)[chance.randrange(4)], amount=1)))
        if index % 3 == 0:
            requests.append(client.start(spots[index % 5], pb.PingReq()))
    # Whoever is left alone in the hand is let go once nobody else comes.
    def all_done():
        with lock:
            ready, waiting[:] = list(waiting), []
        for call in ready:
            call.reply()
        return all(request.done() for request in requests)

    wait_until(all_done, "all requests end")
    equal({request.outcome() for request in requests}, {"Ok"}, "the ends")
    for spot in spots:
        found = client.log(spot)
        equal((found.total, found.overlaps), (80, 0), f"total and overlaps of {spot}")


# ---- channels ----

# EX-99: the handlers of one channel run one at a time in the order of arrival; async holds their gate.
def test_ex99_channel_runs_one_at_a_time_in_order(mesh):
    node, hand, client = one_node(mesh)
    for how in HOLDS:
        requests = [client.start(SLOW, wait(tag, how)) for tag in ("A", "B")]
        ping = client.start(SLOW, pb.PingReq(tag="C"))
        call = hand.take("A")
        client.fence()
        client.ask(FAR, pb.PingReq())  # another channel's gate
        check(hand.calls.empty() and not ping.done(), "two handlers of a channel at a time")
        call.reply()
        hand.take("B").reply()
        for request in requests:
            equal(request.result().status, "Ok", "the wait")
        ping.result()
    equal(log_of(client, SLOW), "A+ A- B+ B- C A+ A- B+ B- C", "the order")
    equal(node.counter("zlink.handlers.failed"), 0, "failed handlers")


# EX-99: the same over a link: requests of one caller reach the channel in the order in which they were sent.
def test_ex99_order_survives_the_link(mesh):
    far = mesh.node("b", ("far",))
    node = mesh.node("a", ("probe",), peers=[far])
    node.wait_links("b")
    client = mesh.client(node)
    spot = probe("sender")
    tags = [f"n{index}" for index in range(100)]
    for request in [client.start(spot, pb.SendReq(tag=tag, channel="far")) for tag in tags]:
        equal(request.result().status, "Ok", "the one-way message")
    other = mesh.client(far, "watch")
    wait_until(lambda: log_of(other, FAR) == " ".join(tags), lambda: f"all arrive in order: {log_of(other, FAR)}")


# EX-23: yield is not offered to a channel's handler: InvalidOperation, and nothing is sent.
def test_ex23_yield_in_a_channel_is_invalid(mesh):
    _, hand, client = one_node(mesh)
    for how in YIELDS:
        equal(client.ask(SLOW, wait("bad", how)).status, "InvalidOperation", "yield in a channel")
    good = client.start(SLOW, wait("good", pb.ASYNC))
    hand.take("good").reply()  # the first that reaches the hand: nothing came before it
    equal(good.result().status, "Ok", "async in a channel")
    raises(api.InvalidOperation, client.ask, SLOW, pb.CloseReq())  # nor is closing


# ---- calls to oneself ----

# EX-24: a wait that holds the gate which its own reply needs is refused before anything is sent.
def test_ex24_request_to_oneself(mesh):
    _, _, client = one_node(mesh)
    spot = probe("narcissus")
    for how in HOLDS:
        result = client.ask(spot, pb.WaitReq(tag="A", how=how, spot_type="probe", spot_id="narcissus"))
        equal(result.status, "InvalidOperation", "async to oneself")
        result = client.ask(SLOW, pb.WaitReq(tag="A", how=how, channel="slow"))
        equal(result.status, "InvalidOperation", "async of a channel to itself")
    equal(log_of(client, spot), "A+ A- A+ A-", "the order")
    # Yield gives the gate back first, so that the request runs in between.
    for how in YIELDS:
        result = client.ask(spot, pb.WaitReq(tag="B", how=how, spot_type="probe", spot_id="narcissus"))
        equal(result.status, "Ok", "yield to oneself")
    equal(log_of(client, spot), "A+ A- A+ A- B+ B B- B+ B B-", "the order")


# EX-24: a one-way message to oneself runs once, later.
def test_ex24_send_to_oneself_runs_once_later(mesh):
    _, _, client = one_node(mesh)
    spot = probe("echo")
    equal(client.ask(spot, pb.SendReq(tag="note", spot_type="probe", spot_id="echo")).status, "Ok", "the message")
    wait_until(lambda: log_of(client, spot) == "note", lambda: f"it runs once: {client.log(spot).log}")
    for _ in range(20):
        client.ask(spot, pb.PingReq())
    equal(log_of(client, spot), "note", "the log")


# Spots call Spots, on this node and on another one.
def test_spots_call_spots(mesh):
    home = mesh.node("b")
    node = mesh.node("a", ("far",), peers=[home], spots=[{"type": "probe", "node": "b"}])
    node.wait_links("b")
    client = mesh.client(home)
    for how in HOLDS + YIELDS:
        result = client.ask(probe("one"), pb.WaitReq(tag="A", how=how, spot_type="probe", spot_id="two"))
        equal(result.status, "Ok", "a call to a Spot of this node")
    equal(client.log(probe("two")).log, "A A A A", "what the other Spot saw")
    other = mesh.client(node, "watch")
    for how in HOLDS:  # the channel on `a` calls the Spot on `b`
        result = other.ask(SLOW, pb.WaitReq(tag="B", how=how, spot_type="probe", spot_id="three"))
        equal(result.status, "Ok", "a call to a Spot of another node")
    equal(client.log(probe("three")).log, "B B", "what the remote Spot saw")


# ---- how waits end ----

# EX-32: a timeout gives the turn back; the owner serves on. TR-45: the late reply changes nothing.
def test_ex32_tr45_timeout_gives_the_turn_back(mesh):
    node, hand, client = one_node(mesh)
    for index, how in enumerate(HOLDS + YIELDS):
        spot = probe(f"timeout-{how}")
        result = client.ask(spot, wait("A", how, timeout_ms=50, amount=5))
        equal(result.status, "DeadlineExceeded", "the wait")
        equal(client.log(spot).total, 0, "the total")
        call = hand.take("A")
        call.reply(pb.LatchRes(number=9))
        node.wait_counter(LATE, index + 1)
        good = client.start(spot, wait("B", how, amount=1))
        hand.take("B").reply(pb.LatchRes(number=2))
        result = good.result()
        equal((result.status, result.total, result.number), ("Ok", 1, 2), "the next wait")
        equal(log_of(client, spot), "A+ A- B+ B-", "the order")


# EX-32: the same in a channel's handler.
def test_ex32_timeout_gives_the_channel_back(mesh):
    node, hand, client = one_node(mesh)
    queued = client.start(SLOW, wait("A", pb.ASYNC, timeout_ms=50)), client.start(SLOW, pb.PingReq(tag="B"))
    equal(queued[0].result().status, "DeadlineExceeded", "the wait")
    queued[1].result()
    equal(log_of(client, SLOW), "A+ A- B", "the order")
    hand.take("A").reply()
    node.wait_counter(LATE, 1)


# A local call's deadline: the called Spot is held by somebody else.
def test_ex32_timeout_of_a_call_within_the_node(mesh):
    _, hand, client = one_node(mesh)
    holder = client.start(probe("busy"), wait("A", pb.ASYNC))
    call = hand.take("A")
    for how in HOLDS + YIELDS:
        result = client.ask(probe("caller"), pb.WaitReq(tag="B", how=how, spot_type="probe", spot_id="busy",
                                                        timeout_ms=50))
        equal(result.status, "DeadlineExceeded", "the wait")
    call.reply()
    holder.result()
    # What was given up before its turn came is not run any more.
    equal(log_of(client, probe("busy")), "A+ A-", "the order")


# Reply and deadline race: each call has one end, and the sums are exact.
def test_reply_and_deadline_race_to_one_end(mesh):
    node, hand, client = one_node(mesh)
    chance = random.Random(11)

    def answer(call):
        threading.Timer(chance.uniform(0, 0.08), lambda: call.reply()).start()

    hand.answer = answer
    requests = [client.start(probe(f"race-{index % 7}"), wait("", YIELDS[index % 2], timeout_ms=40, amount=1))
                for index in range(300)]
    ends = [request.result().status for request in requests]
    check(set(ends) <= {"Ok", "DeadlineExceeded"}, f"other ends: {set(ends)}")
    total = sum(client.log(probe(f"race-{index}")).total for index in range(7))
    equal(total, ends.count("Ok"), "what was added, and how often the callers heard Ok")
    sent = node.counter("zlink.requests.sent")  # not all, where a deadline was over before the request could leave
    node.wait_counter(ANSWERED, sent)
    equal(node.counter(LATE), sent - ends.count("Ok"), "late replies")
    check(node.counter("zlink.request.timeouts") <= ends.count("DeadlineExceeded"), "timeouts are counted once")


# A caller's own deadline: DeadlineExceeded once, and the late reply is dropped.
def test_tr45_callers_deadline(mesh):
    _, hand, client = one_node(mesh)
    late = client.start(probe("late"), wait("A", pb.YIELD), timeout=0.2)
    call = hand.take("A")
    check(0 < call.deadline_ms <= 30000, f"deadline that reached the channel: {call.deadline_ms} ms")
    raises(api.DeadlineExceeded, late.result)
    call.reply()
    check(client.wait_for(lambda c: c.late_replies == 1), "the late reply did not come")
    equal(client.ask(probe("late"), pb.PingReq()).owner, "late", "the next request")


# A request whose time is over before its turn comes is not run.
def test_ex59_a_request_that_was_given_up_is_not_run(mesh):
    node, hand, client = one_node(mesh)
    holder = client.start(probe("busy"), wait("A", pb.ASYNC))
    call = hand.take("A")
    raises(api.DeadlineExceeded, client.ask, probe("busy"), pb.PingReq(tag="B"), timeout=0.1)
    client.fence()
    call.reply()
    holder.result()
    equal(log_of(client, probe("busy")), "A+ A-", "the order")
    equal(node.counter("zlink.handlers.cancelled"), 1, "requests that their client has cancelled")


# The hand is gone in mid-wait: Unavailable, at once.
def test_lost_peer_ends_its_waits(mesh):
    _, hand, client = one_node(mesh)
    waits = [client.start(probe(f"lost-{how}"), wait(f"w{how}", how)) for how in HOLDS + YIELDS]
    hand.take_all(4)
    hand.close()
    equal([request.result().status for request in waits], ["Unavailable"] * 4, "the waits")


# ---- errors ----

# TR-42: nobody handles the packet: NotFound for a request, a count for a one-way message.
def test_tr42_missing_handler(mesh):
    node, _, client = one_node(mesh)
    dropped = "zlink.mesh_node.messages.dropped.no_handler"
    for count, target in enumerate((probe("x"), FAR, Spot("no-such-type", "x"), Channel("no-such-channel"))):
        raises(api.NotFound, client.start(target, pb.Nobody()).result)
        client.tell(target, pb.Nobody())
        node.wait_counter(dropped, 2 * count + 2)
        client.fence()
    raises(api.NotFound, client.start(FAR, pb.Note()).result)  # a one-way handler takes no request
    before = node.counter(dropped)
    client.tell(FAR, pb.PingReq(tag="X"))
    node.wait_counter(dropped, before + 1)
    equal(client.log(FAR).log, "", "what the channel saw")


# TR-31: a channel that nobody serves is NotFound. TR-32: known and not reachable is Unavailable.
def test_tr31_tr32_not_found_and_unavailable(mesh):
    node, hand, client = one_node(mesh, spots=[{"type": "ghost", "node": "nowhere"}])
    for how in HOLDS + YIELDS:
        equal(client.ask(probe("x"), wait("A", how, "no-such-channel")).status, "NotFound", "an unknown channel")
        ask = pb.WaitReq(how=how, spot_type="no-such-type", spot_id="x")
        equal(client.ask(probe("x"), ask).status, "NotFound", "an unknown Spot type")
        ask = pb.WaitReq(how=how, spot_type="ghost", spot_id="x")
        equal(client.ask(probe("x"), ask).status, "Unavailable", "the Spot type of an absent node")
    hand.close()
    wait_until(lambda: all(link["name"] != "hand" for link in node.links()), "the hand is gone")
    for how in HOLDS + YIELDS:
        equal(client.ask(probe("x"), wait("A", how)).status, "Unavailable", "a channel whose server has left")
    mesh.hand(node, name="hand-two").answer = lambda call: call.reply()
    equal(client.ask(probe("x"), wait("A", pb.YIELD)).status, "Ok", "the channel, served again")


# Each error kind that a handler returns reaches its caller unchanged, over one link and over two.
def test_error_kinds_pass_unchanged(mesh):
    far = mesh.node("b", ("far",))
    node = mesh.node("a", ("probe",), peers=[far])
    node.wait_links("b")
    client = mesh.client(node)
    for kind in api.ERRORS:
        status = kind.kind + 1
        for message in (pb.FailReq(status=status), pb.FailReq(status=status, channel="far")):
            error = raises(kind, client.ask, probe("x"), message)
            check(error.remote, f"{kind.__name__} was not the node's answer")
    for status in (14, 1000, 2**32 - 1):  # no kind at all is the handler's own failure
        raises(api.InternalFailure, client.ask, probe("x"), pb.FailReq(status=status))
        raises(api.InternalFailure, client.ask, probe("x"), pb.FailReq(status=status, channel="far"))
    client.ask(probe("x"), pb.PingReq())


# A payload that cannot be decoded is a ProtocolError and reaches no handler; one too long for its field likewise.
def test_undecodable_payload(mesh):
    node, _, client = one_node(mesh)
    packet = harness.packet_of(pb.PingReq())
    for payload in (b"\x0a\x05ab", b"\xff\xff\xff", pb.PingReq(tag="t" * 1000).SerializeToString()):
        raises(api.ProtocolError, client.request, probe("x"), packet, payload)
        client.send(probe("x"), "tests.mesh.Note", payload)
    node.wait_counter("zlink.mesh_node.messages.dropped.decode_error", 6)
    equal(log_of(client, probe("x")), "", "what the Spot saw")


# A reply that the handler's caller cannot use: another packet, or bytes that are none.
def test_wrong_replies(mesh):
    _, hand, client = one_node(mesh)
    for reply in (pb.PingRes(), pb.WaitRes(status="x")):
        waiting = client.start(probe("x"), wait("A", pb.YIELD))
        hand.take("A").reply(reply)
        equal(waiting.result().status, "ProtocolError", "a reply of another packet")
    equal(client.ask(probe("x"), pb.PingReq()).owner, "x", "the next request")


# ---- one-way, and small things ----

# One-way messages: to a Spot, to a channel, and from handlers to both, here and elsewhere.
def test_one_way(mesh):
    far = mesh.node("b", ("far",))
    node = mesh.node("a", ("probe",), peers=[far])
    node.wait_links("b")
    client = mesh.client(node)
    client.tell(probe("x"), pb.Note(tag="one"))
    equal(client.log(probe("x")).log, "one", "what the Spot saw")  # the request stands behind the message
    equal(client.ask(probe("x"), pb.SendReq(tag="two", spot_type="probe", spot_id="y")).status, "Ok", "Spot to Spot")
    wait_until(lambda: client.log(probe("y")).log == "two", "the other Spot gets it")
    equal(client.ask(probe("x"), pb.SendReq(tag="three", channel="far")).status, "Ok", "Spot to channel")
    equal(client.ask(probe("x"), pb.SendReq(tag="four", channel="no-such-channel")).status, "NotFound", "to nobody")
    equal(client.ask(probe("x"), pb.SendReq(tag="five", spot_type="no-such-type", spot_id="x")).status, "NotFound",
          "to no type")
    watch = mesh.client(far, "watch")
    wait_until(lambda: watch.log(FAR).log == "three", lambda: f"the channel gets it: {watch.log(FAR).log}")


# What a turn knows of itself.
def test_turn_knows_owner_source_and_time(mesh):
    _, _, client = one_node(mesh)
    for target, owner in ((probe("prix-é"), "prix-é"), (FAR, "far")):
        answer = client.ask(target, pb.PingReq(), timeout=20)
        equal((answer.owner, answer.source), (owner, client.node_id), "owner and source")
        check(0 < answer.remaining_ms <= 20000, f"remaining: {answer.remaining_ms} ms")


# A closed Spot finishes what it has accepted, and the next call to its id starts a fresh one.
def test_close_and_begin_anew(mesh):
    node, hand, client = one_node(mesh)
    spot = Spot("scribe", "diary")
    waiting = client.start(spot, wait("A", pb.YIELD, amount=4))
    call = hand.take("A")
    client.ask(spot, pb.CloseReq())
    call.reply()
    equal(waiting.result().total, 4, "the handler that was on its way")
    def reopened():
        try:
            return client.ask(spot, pb.PingReq(tag="B"))
        except api.Unavailable:  # it is closing: no two lives of one Spot overlap
            return None

    wait_until(reopened, "a fresh Spot")
    found = client.log(spot)
    equal((found.log, found.total), ("B", 0), "the fresh Spot's state")
    with open(mesh.path("diary"), encoding="utf-8") as file:
        equal(file.read(), "closed: A+ A-\n", "what on_closing saw")
    client.ask(spot, pb.CloseReq())
    wait_until(lambda: node.counter("zlink.spot.count") == 0, "no Spot is left")


# An on_create that refuses: the calls that woke the Spot end with its status, the next call tries again.
def test_refused_spot(mesh):
    node, _, client = one_node(mesh)
    spot = Spot("shy", "violet")
    for _ in range(2):
        raises(api.Rejected, client.ask, spot, pb.PingReq())
        wait_until(lambda: node.counter("zlink.spot.count") == 0, "the refused Spot is gone")
    equal(client.ask(spot, pb.PingReq()).owner, "violet", "the third try")


# A channel's on_start may call before there is a mesh: it is told so, and the node serves all the same.
def test_calls_of_on_start(mesh):
    node = mesh.node("a", ("early", "far"))
    equal(mesh.client(node).ask(Channel("early"), pb.PingReq(tag="p")).owner, "far", "who answered")


# Many handlers wait at a time: none costs a worker.
def test_many_waits_at_a_time(mesh):
    node, hand, client = one_node(mesh)
    count = 1000
    requests = [client.start(probe(f"many-{index}"), wait("", (HOLDS + YIELDS)[index % 4])) for index in range(count)]
    calls = [hand.take() for _ in range(count)]
    check(node.status()["execution"]["stacks_live"] >= count // 2, "handlers wait on stacks of their own")
    client.ask(probe("free"), pb.PingReq())
    for call in calls:
        call.reply()
    equal({request.result().status for request in requests}, {"Ok"}, "the waits")


# ---- work off the turn ----

def let_go(client, tag, works=1):
    """Ends the works of this tag, all of which must have begun."""
    gone = [0]

    def enough():
        gone[0] += client.ask(probe("warden"), pb.LetGoReq(tag=tag)).works
        return gone[0] >= works

    wait_until(enough, lambda: f"{works} works '{tag}' begin, {gone[0]} have")


# EX-33: while a handler waits with yield for CPU or I/O work, probes of its own Spot run; with async they wait for it.
def test_ex33_work_with_yield_and_async(mesh):
    node, _, client = one_node(mesh)
    for io in (False, True):
        for how in YIELDS + HOLDS:
            spot, tag = probe(f"work-{io}-{how}"), f"{io}-{how}"
            waiting = client.start(spot, pb.WorkReq(tag=tag, how=how, io=io, amount=7))
            node.wait_counter("zlink.io_work.pending" if io else "zlink.cpu_work.running", 1)
            probes = [client.start(spot, pb.PingReq(tag=letter)) for letter in "BC"]
            client.ask(probe("other"), pb.PingReq())  # other Spots run on the node's one worker in any case
            if how in YIELDS:
                for other in probes:
                    other.result()
            check(not waiting.done(), "the handler has ended before its work")
            check(how in YIELDS or not any(other.done() for other in probes), "a probe ran in a held Spot")
            let_go(client, tag)
            result = waiting.result()
            equal((result.status, result.total), ("Ok", 7), "the work")
            for other in probes:
                other.result()
            equal(log_of(client, spot), f"{tag}+ B C {tag}-" if how in YIELDS else f"{tag}+ {tag}- B C", "the order")


# EX-35: of a batch of CPU work, what threads and queue cannot take is CapacityExceeded at once. EX-34: I/O work, four
# times as many as there are threads, goes on meanwhile.
def test_ex34_ex35_batch_over_the_limit(mesh):
    node, _, client = one_node(mesh, cpu_workers_max=2, limits={"cpu_works": 3})
    spot = probe("batch")
    batch = [client.start(spot, pb.WorkReq(tag="cpu", how=pb.YIELD, amount=1)) for _ in range(9)]
    wait_until(lambda: sum(work.done() for work in batch) == 4, "four are refused")
    reading = [client.start(probe("reads"), pb.WorkReq(tag="io", how=pb.YIELD, io=True, amount=1)) for _ in range(8)]
    let_go(client, "io", 8)
    equal([work.result().status for work in reading], ["Ok"] * 8, "I/O work")
    equal((node.counter("zlink.cpu_work.running"), node.counter("zlink.cpu_work.queued")), (2, 3), "CPU work")
    let_go(client, "cpu", 5)
    equal(sorted(work.result().status for work in batch), ["CapacityExceeded"] * 4 + ["Ok"] * 5, "CPU work")
    equal(client.log(spot).total, 5, "what the work has brought")
    equal((node.counter("zlink.cpu_work.refused"), node.counter("zlink.io_work.refused")), (4, 0), "refusals")


# Work whose time is over: the handler goes on, CPU work is told to stop, and a late end is dropped.
def test_work_that_is_late(mesh):
    node, _, client = one_node(mesh)
    for index, how in enumerate(HOLDS + YIELDS):
        spot = probe(f"late-{how}")
        for io in (False, True):
            result = client.ask(spot, pb.WorkReq(tag="late", how=how, io=io, timeout_ms=50, amount=1))
            equal((result.status, result.total), ("DeadlineExceeded", 0), "the work")
        node.wait_counter("zlink.cpu_work.late", index + 1)
        equal(node.counter("zlink.io_work.pending"), 1, "I/O work that nobody has completed")
        wait_until(lambda: client.ask(probe("warden"), pb.LetGoReq(tag="late")).works > 0, "the I/O work is completed")
        node.wait_counter("zlink.io_work.late", index + 1)
        equal(client.log(spot).total, 0, "the total")


# A Spot that closes tells its work to stop.
def test_closing_spot_stops_its_work(mesh):
    node, _, client = one_node(mesh)
    waiting = client.start(probe("leaving"), pb.WorkReq(tag="A", how=pb.YIELD, amount=1))
    node.wait_counter("zlink.cpu_work.running", 1)
    client.ask(probe("leaving"), pb.CloseReq())
    equal(waiting.result().status, "Ok", "the work, which looked at its token and returned")


if __name__ == "__main__":
    harness.main(globals())
