"""calm.py - the same job without faults, in turns with a storm.

There is one job for each number of ranks, and all of them stand still
(SIGSTOP).  While the storm stands still, one of them goes on: with as many ranks
as the storm had.  So whatever else the machine does meets both, and a storm in
which few ranks trained for long, which many cores would not like and two cores
do, is compared with jobs of few ranks."""
import random
import shutil
import signal
import time

import faults
import job as jobs
from seen import Seen

START_S = 120
AWAKE = 0.3 # of a turn; what was stopped takes a while to be as it was


class Calm:
    def __init__(self, got, mode, root):
        most = int(got["agents"]) * int(got["ranks"]) + 2
        least = 2 if mode in jobs.RELOADS else 1
        self.random, self.jobs = random.Random(1), {}
        got = dict(got, suspect="600")
        for n in range(least, min(most, faults.MOST_RANKS) + 1):
            job = jobs.Job(got, mode, 0, jobs.prepare(got, mode, root))
            self.jobs[n] = job, Seen(job)
            self.start(n)
            job.signal(signal.SIGSTOP)

    def start(self, n):
        job, seen = self.jobs[n]
        left, each = n, int(job.got["ranks"])
        while left > 0:
            job.start(min(left, each))
            left -= each
        end = time.monotonic() + START_S
        seen.find_pages()
        while not seen.views or seen.views[-1].ranks != n or \
                seen.look() < (seen.views[-1].base or 0) + 5:
            if time.monotonic() > end:
                raise RuntimeError("a job without faults does not begin")
            time.sleep(0.05)
            seen.find_pages()
            seen.read_log()

    def wait_until_awake(self, seconds):
        time.sleep(AWAKE * seconds)

    def turn(self, ranks, seconds):
        """Iterations a second of so many ranks.  What lies between two numbers
        of them is now one, now the other."""
        n = int(ranks + self.random.random())
        n = min(max(n, min(self.jobs)), max(self.jobs))
        job, seen = self.jobs[n]
        job.signal(signal.SIGCONT)
        self.wait_until_awake(seconds)
        begin, first = time.monotonic(), seen.look()
        time.sleep((1 - AWAKE) * seconds)
        rate = (seen.look() - first) / (time.monotonic() - begin)
        job.signal(signal.SIGSTOP)
        return rate

    def end(self):
        for job, _ in self.jobs.values():
            job.end()
            shutil.rmtree(job.folder, ignore_errors=True)
