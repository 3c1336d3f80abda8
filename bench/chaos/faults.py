"""faults.py - what can happen to a job, by name, and when.

Each takes the job, does its harm, and says what it did (Struck), or returns None
where it cannot be done now."""
import os
import random
import signal
import subprocess
import time

MOST_RANKS, BALANCE_S = 8, 5
# What ends processes of a host that goes on.
ENDS = ("kill", "coordinator", "agent", "leave")


class Struck:
    """What happened: since when, and until when; who is not heard meanwhile, and
    whether these are cut off together and hear each other; how many are lost
    for good without anybody who saw it; how it is set right, in a thread of its
    own, if it does not last."""

    def __init__(self, begin, until=0, silent=(), cut=False, lost=0, heal=None):
        self.begin, self.until, self.lost = begin, until, lost
        self.silent, self.cut, self.heal = set(silent), cut, heal
        self.name = ""

    def set_right(self):
        time.sleep(max(0, self.until - time.monotonic()))
        self.heal()

    def due(self, limit, suspect):
        """When the next iteration has to count.  Who is silent has to be found
        out before; what only makes a job slow has to be over."""
        if self.silent:
            return self.begin + suspect + limit
        if self.name in ("slow", "loss"):
            return self.until + limit
        return self.begin + limit


def ip(*words):
    subprocess.run(["ip"] + list(words), check=True)


def tc(space, text):
    """Commands to tc in a network namespace."""
    subprocess.run(["tc", "-n", space, "-b", "-"], check=True, text=True,
                   input=text, stderr=subprocess.DEVNULL)


def for_seconds(job, *some):
    """(now, then): a while, which is drawn."""
    begin = time.monotonic()
    return begin, begin + job.random.choice(some)


def some_rank(job):
    ranks = job.ranks()
    return job.random.choice(ranks) if len(ranks) > 1 else None


def some_host(job):
    """One that the others would miss."""
    holders = set(job.holders())
    return job.random.choice([h for h in job.hosts if holders &
                              set(job.ranks_of(h))] or job.hosts)


def lives(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def strike(pid, number):
    begin = time.monotonic()
    os.kill(pid, number)
    while number == signal.SIGKILL and lives(pid):  # else it still counts
        time.sleep(0.0005)
    return Struck(begin)


def is_seen(job, pid):
    """Whether its agent, or another rank of its host, will see its end."""
    with open("/proc/%d/stat" % pid) as f:
        parent = int(f.read().rsplit(")", 1)[1].split()[1])
    if not job.hosts or any(a.pid == parent and lives(a.pid)
                            for a in job.agents):
        return True
    return any(pid in job.ranks_of(host) and len(job.ranks_of(host)) > 1
               for host in job.hosts)


def kill_rank(job, pid):
    """Nobody may see it, where its agent was lost before: then the others find
    out by its silence, and more than half of all have to be left."""
    if is_seen(job, pid):
        return strike(pid, signal.SIGKILL)
    if len(set(job.holders()) - {pid}) < 2:
        return None
    struck = strike(pid, signal.SIGKILL)
    struck.silent, struck.lost = {pid}, 1
    return struck


def kill(job):
    pid = some_rank(job)
    return pid and kill_rank(job, pid)


def coordinator(job):
    pid = job.coordinator()
    ranks = job.ranks()
    return kill_rank(job, pid) \
        if pid in ranks and len(ranks) > 1 else None


def agent(job):
    alive = [a for a in job.agents if a.poll() is None]
    return strike(job.random.choice(alive).pid, signal.SIGKILL) \
        if len(alive) > 1 else None


def leave(job):
    # A job that nobody may leave ends when somebody asks to; one of those
    # counted may still wait to be taken in again.
    if job.reloads and len(job.holders()) <= 3:
        return None
    pid = some_rank(job)
    if pid:
        job.leaving.add(pid)
    return pid and strike(pid, signal.SIGTERM)


def stop(job):
    pid = some_rank(job)
    if not pid:
        return None
    begin, end = for_seconds(job, 0.2, 1, 3)
    os.kill(pid, signal.SIGSTOP)
    job.stopped.add(pid)

    def go_on():
        job.stopped.discard(pid)
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
    return Struck(begin, end, [pid], heal=go_on)


def join(job):
    """Somebody comes, whether or not anybody is missing."""
    if len(job.ranks()) >= MOST_RANKS:
        return None
    begin = time.monotonic()
    job.start(1)
    return Struck(begin)


def cut_off(job, host, off, on):
    """A host, while `off` is in force."""
    silent = job.ranks_of(host)
    begin, end = for_seconds(job, 0.5, 3, 6)
    off()
    return Struck(begin, end, silent, True, heal=on)


def set_link(host, way):
    ip("-n", host, "link", "set", "eth0", way)


def link(job):
    """A host is cut off for a while."""
    host = some_host(job)
    return cut_off(job, host, lambda: set_link(host, "down"),
                   lambda: set_link(host, "up"))


def one_way(job, host, space, device):
    """Nothing that is to leave by this device does, and nobody is told."""
    return cut_off(
        job, host,
        lambda: tc(space, "qdisc replace dev %s root blackhole" % device),
        lambda: tc(space, "qdisc del dev %s root" % device))


def mute(job):
    """Nothing comes from a host for a while, which hears the others."""
    host = some_host(job)
    return one_way(job, host, host, "eth0")


def deaf(job):
    """Nothing comes to a host for a while, which the others hear."""
    host = some_host(job)
    return one_way(job, host, "switch", "port" + host[1:])


def slow(job):
    """What a host sends comes through a narrow link for a while."""
    host = some_host(job)
    begin, end = for_seconds(job, 1, 2)
    tc(host, "qdisc replace dev eth0 root tbf rate 20mbit burst 32kb "
       "latency 100ms")
    return Struck(begin, end, heal=lambda: tc(host, "qdisc del dev eth0 root"))


# A kernel without netem may have BPF.  A class takes, and drops, one packet in
# so many: those for which a drawn number of 32 bits is that small.
LOSSY = """qdisc add dev eth0 root handle 1: htb
class add dev eth0 parent 1: classid 1:2 htb rate 1gbit quantum 60000
qdisc add dev eth0 parent 1:2 blackhole
filter add dev eth0 parent 1: protocol all bpf bytecode \
'4,32 0 0 4294963256,53 1 0 %d,6 0 0 65538,6 0 0 0'
"""


def lose(host, share):
    try:
        tc(host, "qdisc add dev eth0 root netem loss %g%%" % (100 * share))
    except subprocess.CalledProcessError:
        tc(host, LOSSY % int(share * 2 ** 32))


def loss(job):
    """Of what a host sends some packets are lost for a while."""
    host = some_host(job)
    begin, end = for_seconds(job, 1, 3)
    lose(host, job.random.choice([0.01, 0.1]))
    return Struck(begin, end, heal=lambda: tc(host, "qdisc del dev eth0 root"))


def can_lose(job):
    """Whether this kernel can lose packets."""
    try:
        lose(job.hosts[0], 0.1)
        tc(job.hosts[0], "qdisc del dev eth0 root")
        return True
    except subprocess.CalledProcessError:
        return False


def end_all(pids):
    for pid in pids:
        try:
            strike(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def balance(job):
    """Somebody comes where there are the fewest, so that a host may be lost
    some time: half of all ranks may be on each of two."""
    if time.monotonic() > job.balanced + BALANCE_S:
        job.balanced = time.monotonic()
        job.start(1, min(job.hosts, key=lambda h: len(job.ranks_of(h))))


def host(job):
    """A host is lost with all that runs there; the others only hear no more of
    it.  More than half of all have to be elsewhere: they wait for the others
    otherwise.  It comes back empty, and mostly others start there."""
    holders, may = set(job.holders()), []
    for name in job.hosts:
        lost = job.ranks_of(name)
        if holders & set(lost) and len(lost) < len(holders - set(lost)):
            may.append((name, lost))
    if not may:
        balance(job)
        return None
    name, lost = job.random.choice(may)
    comes_back = job.random.random() < 0.7
    begin, end = for_seconds(job, 1, 4)
    set_link(name, "down")
    end_all(a.pid for a in job.agents if a.host == name and a.poll() is None)
    end_all(job.ranks_of(name))

    def up():
        set_link(name, "up")
        if comes_back:
            job.start(int(job.got["ranks"]), name)
    return Struck(begin, end, lost, True, len(lost), up)


def disk(job):
    """The disk of the snapshots is full for a while."""
    begin = time.monotonic()
    path = job.folder + "/disk/filler"
    with open(path, "wb", 0) as f:
        try:
            while True:
                f.write(bytes(1 << 16))
        except OSError:
            pass
    return Struck(begin, begin + 2, heal=lambda: os.unlink(path))


# name: (how often, beside the others; only between hosts)
FAULTS = {
    "kill": (5, kill, False), "coordinator": (3, coordinator, False),
    "agent": (1, agent, False), "stop": (2, stop, False),
    "leave": (1, leave, False), "join": (1, join, False),
    "link": (2, link, True), "mute": (1, mute, True), "deaf": (1, deaf, True),
    "slow": (1, slow, True), "loss": (1, loss, True), "disk": (1, disk, True),
    "host": (1, host, True),
}
ZERO_IN = 10 # one fault in so many, at least, is that of rank 0


def able(job):
    """The kinds that can strike this job."""
    few = int(job.got["agents"]) * int(job.got["ranks"]) <= 3
    return [name for name, (_, _, between_hosts) in FAULTS.items()
            if (job.hosts or not between_hosts) and
            not (name == "loss" and not can_lose(job)) and
            not (name == "leave" and job.reloads and few)]


def plan(job, seed, n):
    """What is to happen, in this order if it can: each kind at least once, and
    rank 0 is killed as often as it has to be."""
    draw = random.Random(seed)
    names = able(job)
    n = max(n, len(names))
    chosen = names + ["coordinator"] * (-(-n // ZERO_IN) - 1)
    n = max(n, len(chosen))
    chosen += draw.choices(names, [FAULTS[k][0] for k in names],
                           k=n - len(chosen))
    draw.shuffle(chosen)
    return chosen


def missed(names, hits):
    """What the storm lacked of that."""
    lacks = [name for name in names if not hits[name]]
    if hits["coordinator"] * ZERO_IN < sum(hits.values()):
        lacks.append("coordinator, one in %d" % ZERO_IN)
    return lacks
