"""storm.py - faults that befall a job, one after the other, and what comes of
them."""
import statistics
import threading
import time

import faults
import job as jobs
from seen import Seen


class Storm:
    """hits: by kind; times: of each wait, the seconds and the kind."""

    def __init__(self, job):
        self.job, self.seen = job, Seen(job)
        self.hits, self.times = {}, []
        self.n_during, self.healing = 0, []
        self.begin, self.seconds, self.done = None, 0, 0

    # ---- Faults.

    def strike(self, only=None):
        """Lets something happen, and heal: (its name, when it began)."""
        name, fault = faults.draw(self.job, only)
        struck = fault(self.job)
        if not struck:
            return None
        begin, set_right = struck
        self.hits[name] = self.hits.get(name, 0) + 1
        # Two ranks wait for the first of them while it stands still.
        if set_right:
            self.healing.append(threading.Thread(target=set_right))
            self.healing[-1].start()
        return name, begin

    def strike_again(self, holders, first):
        """While the job deals with the first fault: as members agree, as
        they make their nets, in the first iterations."""
        job = self.job
        if job.random.random() >= 0.4:
            return first
        time.sleep(job.random.choice([0, 0.02, 0.1, 0.3]) *
                   job.random.random())
        if not job.may_lose_another(holders):
            return first
        again = self.strike(faults.ENDS + ("stop", "join"))
        if not again:
            return first
        self.n_during += 1
        calm = {first[0], again[0]} <= set(faults.ENDS)
        return (again[0] if calm else "both", again[1])

    def harm(self):
        """The number of faults that struck."""
        job = self.job
        n = sum(self.hits.values())
        job.check_reloadings()
        holders = job.holders()
        self.healing = []
        first = self.strike() if job.may_lose_one() else None
        if not first:
            return 0
        try:
            name, begin = self.strike_again(holders, first)
            # What they have come to by now, the lost ones, too.
            since = self.seen.look()
            seconds = self.await_next(since, begin)
        finally:
            for thread in self.healing:
                thread.join()
        if seconds is not None:
            self.times.append((seconds, name))
        self.seen.check()
        if job.reloads:
            job.check_reloadings()
        return sum(self.hits.values()) - n

    def await_next(self, since, begin):
        """Seconds until the iteration after that counts: some rank is ready
        for one more, for which it needs all others.  None: the job is over."""
        looked = 0
        while self.seen.peak <= since + 1:
            now = time.monotonic()
            if now - begin > jobs.LIMIT_S:
                self.job.dump_stacks()
                raise RuntimeError("nothing was committed for %d s" %
                                   jobs.LIMIT_S)
            if now - looked > 0.25:
                self.seen.check()
                if self.job.over():
                    return None
                looked = now
            time.sleep(0.001)
        return time.monotonic() - begin

    def keep_up(self):
        """New ones for those that left, and for agents that died."""
        job = self.job
        n = len(job.ranks())
        lack = int(job.got["agents"]) * int(job.got["ranks"]) - n
        if lack > 0 and job.random.random() < 0.3:
            idle = [h for h in job.hosts if not any(
                a.host == h and a.poll() is None for a in job.agents)]
            job.start(min(lack, int(job.got["ranks"])) if job.hosts else lack,
                      idle[0] if idle else None)

    # ---- All of it.

    def run(self):
        """The iteration at the end."""
        job = self.job
        for _ in range(int(job.got["agents"])):
            job.start(int(job.got["ranks"]))
        self.seen.start()
        time.sleep(1)
        self.begin = time.time()
        n, wanted = 0, int(job.got["faults"])
        begin, first = time.monotonic(), self.seen.look()
        struck_at = begin
        while not job.over() and n < wanted:
            time.sleep(job.random.uniform(0.02, float(job.got["pace"])))
            try:
                struck = self.harm()
            except ProcessLookupError:
                struck = 0
            n += struck
            now = time.monotonic()
            self.done, self.seconds = self.seen.look() - first, now - begin
            struck_at = now if struck else struck_at
            if now - struck_at > jobs.LIMIT_S:
                job.dump_stacks()
                raise RuntimeError("for %d s it has not come to where it may "
                                   "lose a rank" % jobs.LIMIT_S)
            self.keep_up()
        if n < wanted:
            raise RuntimeError("it ended by itself")
        self.await_next(self.seen.look(), time.monotonic())
        self.seen.check()
        n = job.stop()
        self.seen.check()
        return n

    def of(self, *names):
        return sorted(t for t, name in self.times if name in names) or [0]

    def again(self):
        return self.job.again if self.job.reloads else len(self.seen.again)

    def rate(self):
        return self.done / max(self.seconds, 1e-9)

    def ranks(self):
        return self.seen.mean_ranks(self.begin, self.begin + self.seconds)

    def row(self):
        ends = self.of(*faults.ENDS)
        return "%d | %d | %d | %d | %.2f | %.2f | %.2f | %.1f | %.1f" % (
            sum(self.hits.values()), self.hits.get("coordinator", 0),
            self.n_during, self.again(), statistics.median(ends), ends[-1],
            self.of("link")[-1], self.ranks(), self.rate())
