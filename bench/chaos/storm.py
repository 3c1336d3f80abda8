"""storm.py - faults that befall a job, one after the other, and what comes of
them."""
import collections
import signal
import statistics
import threading
import time

import faults
import job as jobs
from seen import Seen

STRAY_S = 10 # what has struck before gives way if it cannot strike for so long


class Storm:
    """hits: by kind; times: of each wait, the seconds, those that it may take,
    and the kind."""

    def __init__(self, job, seed, calm=None):
        self.job, self.calm, self.seen = job, calm, Seen(job)
        self.kinds = faults.able(job)
        self.plan = faults.plan(job, seed, int(job.got["faults"]))
        self.hits, self.times = collections.Counter(), []
        self.n_during, self.healing = 0, []
        self.limit = float(job.got["limit"])
        self.suspect = float(job.got["suspect"])
        self.spans = [] # iterations, seconds, ranks, those of the calm job / s
        self.span = None

    # ---- Faults.

    def strike(self, only=None):
        """The next of the plan that can happen now."""
        tried = set()
        for i, name in enumerate(self.plan):
            if name in tried or (only and name not in only):
                continue
            tried.add(name)
            try:
                struck = faults.FAULTS[name][1](self.job)
            except (ProcessLookupError, FileNotFoundError): # just gone
                continue
            if struck:
                del self.plan[i]
                self.hits[name] += 1
                struck.name = name
                # Two ranks wait for one of them while it stands still.
                if struck.heal:
                    self.healing.append(
                        threading.Thread(target=struck.set_right))
                    self.healing[-1].start()
                return struck
        return None

    def strike_again(self, holders, first):
        """While the job deals with the first fault: as members agree, as
        they make their nets, in the first iterations."""
        job = self.job
        if job.random.random() >= 0.4:
            return [first]
        time.sleep(job.random.choice([0, 0.02, 0.1, 0.3]) *
                   job.random.random())
        if not job.may_lose_another(holders, first.lost):
            return [first]
        again = self.strike(faults.ENDS + ("stop", "join"))
        if not again:
            return [first]
        self.n_during += 1
        return [first, again]

    def due(self, struck, holders, zero):
        """When the next iteration has to count: when each of the faults by
        itself allows it.  Where no side has more than half of those that may
        be alive, or half with rank 0, they rightly wait until one comes
        back."""
        due = max(one.due(self.limit, self.suspect) for one in struck)
        here = self.job.ranks()
        silent = set().union(*(one.silent for one in struck))
        members = {p for p in holders if p in here} | silent
        stands = set().union(*(one.silent for one in struck if not one.cut))
        cut = set().union(*(one.silent for one in struck if one.cut))
        cut &= set(here)
        for side in (members - silent, cut - stands):
            if 2 * len(side) > len(members) or \
                    (2 * len(side) == len(members) and zero in side):
                return due
        return max([due] + [one.until + self.suspect + self.limit
                            for one in struck])

    def note(self, struck, holders, zero, seconds):
        last = struck[-1]
        name = last.name
        if len(struck) > 1 and not {one.name for one in struck} <= \
                set(faults.ENDS):
            name = "both"
        elif last.silent and name in faults.ENDS:
            name = "unseen"
        due = self.due(struck, holders, zero) - last.begin
        self.times.append((seconds, due, name))
        with open(self.job.folder + "/faults", "a") as out:
            out.write("%s %s: %.3f s of %.2f\n" % (
                time.strftime("%H:%M:%S"), " ".join(
                    "%s at -%.3f" % (one.name, last.begin + seconds - one.begin)
                    for one in struck), seconds, due))

    def harm(self):
        """The number of faults that struck."""
        job = self.job
        n = sum(self.hits.values())
        job.check_reloadings()
        holders, zero = job.holders(), job.coordinator()
        self.healing = []
        first = self.strike() if job.may_lose_one() else None
        if not first:
            return 0
        try:
            struck = self.strike_again(holders, first)
            # What they have come to by now, the lost ones, too.
            since = self.seen.look()
            seconds = self.await_next(since, struck[-1].begin)
        finally:
            for thread in self.healing:
                thread.join()
        if seconds is not None:
            self.note(struck, holders, zero, seconds)
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

    # ---- How much it trains.

    def begin_span(self):
        self.span = (time.time(), time.monotonic(), self.seen.look())

    def end_span(self):
        """Then the job without faults has its turn, on as many ranks as this
        one had and for about as long, while this one stands still: for less
        than it takes to be suspected."""
        wall, begin, peak = self.span
        done, seconds = self.seen.look() - peak, time.monotonic() - begin
        ranks = self.seen.mean_ranks(wall, time.time())
        rate = 0
        if self.calm:
            self.job.signal(signal.SIGSTOP)
            rate = self.calm.turn(ranks, self.suspect / 2)
            self.job.signal(signal.SIGCONT)
            self.calm.wait_until_awake(self.suspect / 2)
        self.spans.append((done, seconds, ranks, rate))

    def mean_ranks(self):
        return sum(s * n for _, s, n, _ in self.spans) / self.seconds()

    def seconds(self):
        return max(sum(s for _, s, _, _ in self.spans), 1e-9)

    def rate(self):
        return sum(done for done, *_ in self.spans) / self.seconds()

    def kept(self):
        """The part of what the job without faults does in the same time."""
        calm = sum(s * rate for _, s, _, rate in self.spans)
        return sum(done for done, *_ in self.spans) / calm if calm else None

    # ---- All of it.

    def run(self):
        """The iteration at the end."""
        job = self.job
        for _ in range(int(job.got["agents"])):
            job.start(int(job.got["ranks"]))
        self.seen.start()
        time.sleep(1)
        struck_at = time.monotonic()
        while self.plan and not job.over():
            self.begin_span()
            time.sleep(job.random.uniform(0.02, float(job.got["pace"])))
            n = self.harm()
            self.end_span()
            now = time.monotonic()
            struck_at = now if n else struck_at
            if now - struck_at > jobs.LIMIT_S:
                job.dump_stacks()
                raise RuntimeError("for %d s it has not come to where it may "
                                   "lose a rank; planned: %s" %
                                   (jobs.LIMIT_S, " ".join(self.plan)))
            if now - struck_at > STRAY_S:
                self.plan = ["kill" if self.hits[k] and k != "coordinator"
                             else k for k in self.plan]
            if self.plan:
                self.keep_up()
        if self.plan:
            raise RuntimeError("it ended by itself")
        self.await_next(self.seen.look(), time.monotonic())
        self.seen.check()
        if len(self.seen.views) < 2: # or else it looks for other lines
            raise RuntimeError("the log told of no change of view")
        self.seen.stops = True
        n = job.stop()
        self.seen.check()
        lacks = faults.missed(self.kinds, self.hits)
        if lacks:
            raise RuntimeError("the storm lacked: " + ", ".join(lacks))
        return n

    def of(self, *names):
        return sorted(t for t, _, name in self.times if name in names) or [0]

    def late(self):
        """Those that came too late."""
        if not self.limit or self.job.reloads:
            return []
        return [wait for wait in self.times if wait[0] > wait[1]]

    def again(self):
        return self.job.again if self.job.reloads else len(self.seen.again)

    def row(self):
        ends = self.of(*faults.ENDS)
        return (sum(self.hits.values()), self.hits["coordinator"],
                self.n_during, self.again(), len(self.late()),
                "%.2f" % statistics.median(ends), "%.2f" % ends[-1],
                "%.2f" % self.of("stop")[-1],
                "%.2f" % self.of("link", "mute", "deaf", "unseen")[-1],
                "%.2f" % self.of("host")[-1], "%.2f" % self.of("both")[-1],
                "%.1f" % self.mean_ranks(), "%.1f" % self.rate())

    def say_hits(self):
        return "hits: " + ", ".join(
            "%s %d" % (name, self.hits[name]) for name in self.kinds)

    def say_late(self):
        return ", ".join("%s after %.2f s of %.2f" % (name, took, due)
                         for took, due, name in self.late())
