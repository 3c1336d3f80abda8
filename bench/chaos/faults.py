"""faults.py - what can happen to a job, by name.

Each takes the job, does its harm, and returns (begin, heal): when it began,
and a function that waits a while and sets right what was harmed, or None.  It returns
None where it cannot be done now."""
import os
import signal
import subprocess
import time

MOST_RANKS = 8
# What ends processes; the others heal by themselves.
ENDS = ("kill", "coordinator", "agent", "leave")


def ip(*words):
    subprocess.run(["ip"] + list(words), check=True)


def tc(host, *words):
    subprocess.run(["tc", "-n", host, "qdisc"] + list(words), check=True,
                   stderr=subprocess.DEVNULL)


def some_rank(job):
    ranks = job.ranks()
    return job.random.choice(ranks) if len(ranks) > 1 else None


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
    return begin, None


def kill(job):
    pid = some_rank(job)
    return pid and strike(pid, signal.SIGKILL)


def coordinator(job):
    pid = job.coordinator()
    ranks = job.ranks()
    return strike(pid, signal.SIGKILL) \
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
    job.leaving.add(pid)
    return pid and strike(pid, signal.SIGTERM)


def stop(job):
    pid = some_rank(job)
    if not pid:
        return None
    begin = time.monotonic()
    end = begin + job.random.choice([0.2, 1, 3])
    os.kill(pid, signal.SIGSTOP)
    job.stopped.add(pid)

    def go_on():
        time.sleep(max(0, end - time.monotonic()))
        job.stopped.discard(pid)
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
    return begin, go_on


def join(job):
    """Somebody comes, whether or not anybody is missing."""
    if len(job.ranks()) >= MOST_RANKS:
        return None
    begin = time.monotonic()
    job.start(1)
    return begin, None


def link(job):
    """A host is cut off for a while."""
    host = job.random.choice(job.hosts)
    begin = time.monotonic()
    end = begin + job.random.choice([0.5, 3, 6])
    ip("-n", host, "link", "set", "eth0", "down")

    def up():
        time.sleep(max(0, end - time.monotonic()))
        ip("-n", host, "link", "set", "eth0", "up")
    return begin, up


def slow(job):
    """What a host sends comes through a narrow link for a while."""
    host = job.random.choice(job.hosts)
    begin = time.monotonic()
    end = begin + job.random.choice([1, 2])
    tc(host, "replace", "dev", "eth0", "root", "tbf", "rate", "20mbit",
       "burst", "32kb", "latency", "100ms")

    def fast():
        time.sleep(max(0, end - time.monotonic()))
        tc(host, "del", "dev", "eth0", "root")
    return begin, fast


def disk(job):
    """The disk of the snapshots is full for a while."""
    begin = time.monotonic()
    end = begin + 2
    path = job.folder + "/disk/filler"
    with open(path, "wb", 0) as f:
        try:
            while True:
                f.write(bytes(1 << 16))
        except OSError:
            pass

    def free():
        time.sleep(max(0, end - time.monotonic()))
        os.unlink(path)
    return begin, free


# name: (how often, beside the others; only between hosts)
FAULTS = {
    "kill": (5, kill, False), "coordinator": (3, coordinator, False),
    "agent": (1, agent, False), "stop": (2, stop, False),
    "leave": (1, leave, False), "join": (1, join, False),
    "link": (2, link, True), "slow": (1, slow, True),
    "disk": (1, disk, True),
}


def draw(job, only=None):
    able = [name for name, (_, _, hosts) in FAULTS.items()
            if (job.hosts or not hosts) and (not only or name in only)]
    name, = job.random.choices(able, [FAULTS[k][0] for k in able])
    return name, FAULTS[name][1]
