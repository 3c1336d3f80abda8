"""turns.py - jobs that run in turns on the same cores.

All are started, and stopped with SIGSTOP.  Then one after the other continues
for some seconds, many times.  What changes on the machine meanwhile meets all of
them, so that their ratio tells less than a percent, which runs one after the
other do not.  A job that wakes up takes a while to be as it was, so the first
moments of a turn do not count, and what counts is from one line about an
iteration to another one, by the times that they carry."""
import datetime
import os
import random
import re
import signal
import statistics
import time

START_S, AWAKE_S, DRAWS = 120, 0.5, 400
DONE = re.compile(r"^I(\d{4} [\d:.]+) .*Iteration (\d+) \(", re.M)


def processes(solver):
    """That have the solver's file in their command line."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(name) != os.getpid():
                with open("/proc/%s/cmdline" % name) as f:
                    if solver in f.read():
                        found.append(int(name))
        except OSError:
            pass
    return found


def when(at):
    """Of "1119 12:30:59.123456" in a log."""
    year = "%d" % datetime.date.today().year
    return datetime.datetime.strptime(year + at,
                                      "%Y%m%d %H:%M:%S.%f").timestamp()


class Turns:
    """Of one job: iterations and seconds of each turn."""

    def __init__(self, job, solver, log):
        self.job, self.solver, self.log = job, solver, log
        self.iterations, self.seconds = [], []

    def done(self, since=0):
        """(time, iteration) of each line since then."""
        with open(self.log, errors="replace") as f:
            found = DONE.findall(f.read())
        lines = [(when(at), int(n)) for at, n in found]
        return [line for line in lines if line[0] >= since]

    def signal(self, number):
        for pid in processes(self.solver):
            try:
                os.kill(pid, number)
            except OSError:
                pass

    def warm_up(self, seconds):
        end = time.monotonic() + START_S
        while len(self.done()) < 2:
            if time.monotonic() > end:
                with open(self.log, errors="replace") as f:
                    raise RuntimeError("a job does not begin:\n" +
                                       f.read()[-2000:])
            time.sleep(0.05)
        time.sleep(seconds)
        self.signal(signal.SIGSTOP)

    def turn(self, seconds):
        start = time.time()
        self.signal(signal.SIGCONT)
        time.sleep(AWAKE_S + seconds)
        self.signal(signal.SIGSTOP)
        done = self.done(start + AWAKE_S)
        if len(done) < 2:
            raise RuntimeError("a turn is too short for two lines of the log")
        self.seconds.append(done[-1][0] - done[0][0])
        self.iterations.append(done[-1][1] - done[0][1])

    def end(self):
        self.signal(signal.SIGKILL)
        for p in self.job.all:
            p.wait()

    def rate(self, turns=None):
        """Iterations a second, in some of the turns."""
        turns = range(len(self.seconds)) if turns is None else turns
        return sum(self.iterations[i] for i in turns) / \
            sum(self.seconds[i] for i in turns)


def run(jobs, n, seconds):
    """Jobs that have been started one by one by `jobs`, functions that return
    Turns, in n turns each."""
    started = []
    try:
        for start in jobs:
            started.append(start())
            started[-1].warm_up(seconds)
        for i in range(n):
            for one in started[::-1 if i % 2 else 1]:
                one.turn(seconds)
    finally:
        for one in started:
            one.end()
    return started


def ratio(a, b):
    """Of the rates of a and b, and its standard error, from turns drawn again
    and again."""
    draw = random.Random(1)
    n = len(a.seconds)
    some = [[draw.randrange(n) for _ in range(n)] for _ in range(DRAWS)]
    return a.rate() / b.rate(), \
        statistics.pstdev(a.rate(t) / b.rate(t) for t in some)
