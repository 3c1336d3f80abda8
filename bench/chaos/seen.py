"""seen.py - what the ranks of a job have come to, read all the time.

A thread looks every millisecond at the page on which each rank writes for how
many iterations it is ready.  The page of a lost rank stays readable, so what
only that one had come to is seen, too.  Ranks of a view are never more than one
iteration apart.  The log has a line of each view, with its time and with the
iteration at which it goes on: where that is less than what some rank was ready
for, the difference is done again."""
import collections
import os
import re
import sys
import threading
import time

import job as jobs

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../elastic"))
import turns  # noqa: E402

LOOK_S, SCAN_S = 0.001, 0.1
# A look that comes later after a view may see iterations of that view.
PROMPT_S = 0.02
# Scans in which a process is no rank, after which nobody asks any more: it may
# be about to become one by exec().
MOST_SCANS = 5
VIEW = re.compile(r"^I(\d{4} [\d:.]+) +\d+ member_\w+\.c:\d+\] "
                  r"(View (\d+): .*?(\d+) rank\(s\) go on (?:at iteration "
                  r"(\d+)|from the newest snapshot).*)\n", re.M)

View = collections.namedtuple("View", "when line number ranks base before")


class Seen(threading.Thread):
    """peak: the most iterations that any rank was ready for."""

    def __init__(self, job):
        super().__init__(daemon=True)
        self.job, self.pages, self.others = job, {}, {}
        self.peak, self.looks = -1, collections.deque(maxlen=5000)
        self.views, self.n_read, self.again = [], 0, set()
        self.fell, self.error = "", None
        self.stops = False # the job was asked to
        self.over = threading.Event()
        self.lock = threading.Lock()

    def run(self):
        scan = 0
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
        except OSError:
            pass
        try:
            while not self.over.is_set():
                self.look()
                if time.monotonic() > scan:
                    self.find_pages()
                    self.read_log()
                    scan = time.monotonic() + SCAN_S
                time.sleep(LOOK_S)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def end(self):
        self.over.set()
        if self.ident:
            self.join()

    def look(self):
        """What they have come to, at this moment."""
        with self.lock:
            for page in self.pages.values():
                self.peak = max(self.peak, page.iteration())
            self.looks.append((time.time(), self.peak))
            return self.peak

    def find_pages(self):
        here = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        self.others = {pid: self.others[pid] for pid in here
                       if pid in self.others}
        for pid in here:
            if pid in self.pages or self.others.get(pid, 0) > MOST_SCANS:
                continue
            if self.job.is_rank(pid):
                try:
                    page = jobs.Page(pid)
                except OSError:
                    continue
                if page.map:
                    with self.lock:
                        self.pages[pid] = page
            else:
                self.others[pid] = self.others.get(pid, 0) + 1

    def before(self, when):
        """What they had come to at a time: by the first look after it, for a
        rank writes only what it was ready for before it stopped; if that look
        was late, by the one before."""
        last, prompt = self.peak, True
        for at, peak in reversed(self.looks):
            if at < when:
                return last if prompt else peak
            last, prompt = peak, at < when + PROMPT_S
        return last

    def read_log(self):
        with open(self.job.folder + "/log", "rb") as f:
            f.seek(self.n_read)
            text = f.read()
        whole = text[:text.rfind(b"\n") + 1]
        self.n_read += len(whole)
        for found in VIEW.finditer(whole.decode(errors="replace")):
            when, line, number, ranks, base = found.groups()
            # An agent that was just being started lost the request, and begins
            # a job after the end of this one.
            if self.stops and number == "1":
                self.over.set()
            if self.over.is_set():
                return
            when = turns.when(when)
            self.add(View(when, line, int(number), int(ranks),
                          None if base is None else int(base),
                          self.before(when)))

    def add(self, view):
        self.views.append(view)
        if self.job.reloads:
            return
        if view.base is None:
            self.fell = "nobody had the parameters any more"
            return
        self.again.update(range(view.base + 1, view.before + 1))
        if view.before - view.base > self.job.most_again:
            self.fell = "it fell back from iteration %d to %d" % (
                view.before, view.base)

    def check(self):
        """Raises what went wrong since."""
        if self.error:
            raise RuntimeError("the bench cannot see: %r" % self.error)
        if self.fell:
            raise RuntimeError(self.fell)

    def mean_ranks(self, begin, end):
        """Of the views between two times, each for as long as it was."""
        views = list(self.views)
        total = 0
        for i, view in enumerate(views):
            until = views[i + 1].when if i + 1 < len(views) else end
            total += view.ranks * max(0, min(until, end) -
                                      max(view.when, begin))
        return total / max(end - begin, 1e-9)
