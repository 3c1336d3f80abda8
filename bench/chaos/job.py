"""job.py - an elastic training of real processes, to be harmed and watched."""
import hashlib
import mmap
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

HOME = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
LIMIT_S = 60   # from a fault to the next iteration: then it hangs
N_IDS = 1000   # samples whose number is their label

MODES = {
    "canonical": ["--canonical", "--parts=8"],
    "auto": [],
    "ring": ["--reduce=ring"],
    "tree": ["--reduce=tree"],
    "halving": ["--reduce=halving"],
    "ps": ["--road=ps"],
    "sharded": ["--road=sharded"],
    "factors": ["--road=factors"],
    "topk": ["--compress=topk:0.05:0"],
    "onebit": ["--compress=onebit:0"],
    "root": ["--data=root"],
    "local": ["--sync=local", "--local_steps=4"],
    "adam": ["--canonical", "--parts=8"],
    "ssp": ["--sync=ssp", "--staleness=2"],
    "async": ["--sync=async"],
    "servers": ["--servers=1", "--road=ps"],
}
# Where servers keep the parameters, a loss of any rank costs what came since the
# newest snapshot.
RELOADS = ("ssp", "async", "servers")
# Where an update is the sum of gradients, a weight can count samples.  Codecs
# leave one of fewer than 1024 values as it is.  The others end with the bits of
# one rank.
COUNTS = ("auto", "ring", "tree", "halving", "ps", "sharded", "factors",
          "local", "topk", "onebit", "root") + RELOADS

SOLVER = """net: "%(folder)s/net.prototxt"
base_lr: %(rate)g
momentum: %(momentum)g
weight_decay: %(decay)g
lr_policy: "fixed"
type: "%(type)s"
display: 20
max_iter: %(iterations)d
snapshot: %(snapshot)d
snapshot_keep: 2
snapshot_prefix: "%(folder)s/disk/out"
random_seed: 1
solver_mode: CPU
"""

# Every sample has a number, and a weight of its own that each use of it makes
# smaller by one: after training the weights tell how often each was used.
COUNTER = """
layer {
  name: "numbers" type: "Data" top: "pixel" top: "number"
  include { phase: TRAIN }
  data_param { source: "%(root)s/numbers" batch_size: %(batch)d
               backend: LMDB }
}
layer {
  name: "nothing" type: "Silence" bottom: "pixel" include { phase: TRAIN }
}
layer {
  name: "count" type: "Embed" bottom: "number" top: "count"
  include { phase: TRAIN } param { lr_mult: %(rate)g }
  embed_param { num_output: 1 input_dim: %(n)d bias_term: false }
}
layer {
  name: "counted" type: "Reduction" bottom: "count" top: "counted"
  include { phase: TRAIN } reduction_param { operation: MEAN }
  loss_weight: 1
}
"""


class Page:
    """What a rank writes where others see it: its iteration."""

    def __init__(self, pid):
        self.map = None
        for fd in os.listdir("/proc/%d/fd" % pid):
            path = "/proc/%d/fd/%s" % (pid, fd)
            if "cortado will" in os.readlink(path):
                with open(path, "rb") as f:
                    self.map = mmap.mmap(f.fileno(), 4096,
                                         access=mmap.ACCESS_READ)
                return

    def iteration(self):
        return struct.unpack_from("i", self.map, 16)[0] if self.map else -1


def fields(data):
    """(number, value) of a message's fields, as protobuf writes them."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = varint() if kind == 2 else 8 if kind == 1 else 4
            value = data[at:at + size]
            at += size
        yield key >> 3, value


def counts(model):
    """How often each numbered sample was used; None: nobody counted."""
    with open(model, "rb") as f:
        data = f.read()
    for number, layer in fields(data):
        if number != 100 or (1, b"count") not in list(fields(layer)):
            continue
        for field, blob in fields(layer):
            for inner, values in fields(blob) if field == 7 else ():
                if inner == 5:
                    return [-v for (v,) in struct.iter_unpack("<f", values)]
    return None


def miscounted(model, n_samples):
    """What is wrong with the samples of a training, or nothing."""
    got = counts(model)
    if got is None:
        return "nobody counted the samples"
    for i, n in enumerate(got):
        want = (n_samples - i + N_IDS - 1) // N_IDS
        if abs(n - want) > 0.01:
            return "sample %d counted %.3f times, not %d" % (i, n, want)
    return ""


class Job:
    """Agents with ranks, on this host or on those of tests/cluster/run."""

    def __init__(self, got, mode, seed, folder):
        self.got, self.mode, self.folder = got, mode, folder
        self.random = random.Random("%s %d" % (mode, seed))
        self.log = open(folder + "/log", "w")
        self.agents, self.pages, self.n_started = [], {}, 0
        self.leaving = set() # ranks that were asked to
        self.stopped = set() # ranks that stand still
        self.hosts = os.environ.get("CLUSTER_HOSTS", "").split(",") \
            if int(got["hosts"]) else []
        self.reloads = mode in RELOADS
        # Iterations that a loss may cost: of local steps, those since a mean.
        self.most_again = 4 if mode == "local" else 1
        self.n_reloadings, self.written, self.again = 0, 0, 0
        self.balanced = time.monotonic() # when somebody last came for that

    def start(self, n, host=None):
        command = [self.got["program"], "train",
                   "--solver=%s/solver.prototxt" % self.folder,
                   "--elastic=%s" % self.got["elastic"],
                   "--ranks=%d" % n,
                   "--threads=1",
                   "--rendezvous=file:%s/meet" % self.folder,
                   "--suspect=%s" % self.got["suspect"],
                   "--restarts=10000"] + MODES[self.mode]
        if self.hosts:
            host = host or self.hosts[self.n_started % len(self.hosts)]
            command = ["ip", "netns", "exec", host, "unshare", "--uts", "sh",
                       "-c", 'hostname $0; exec "$@"', host] + command
        self.n_started += 1
        agent = subprocess.Popen(
            command, stdout=self.log, stderr=self.log, cwd=self.folder,
            env=dict(os.environ, OMP_NUM_THREADS="1"))
        agent.host = host
        self.agents.append(agent)
        return agent

    def is_rank(self, pid):
        """Of this job, alive, and no agent of ours."""
        if pid == os.getpid() or any(a.pid == pid for a in self.agents):
            return False
        try:
            with open("/proc/%d/cmdline" % pid) as f:
                if self.folder + "/solver.prototxt" not in f.read():
                    return False
            with open("/proc/%d/stat" % pid) as f:
                return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def ranks(self):
        return [int(name) for name in os.listdir("/proc")
                if name.isdigit() and self.is_rank(int(name))]

    def ranks_of(self, host):
        """Those in the network namespace of a host."""
        space = os.stat("/run/netns/" + host).st_ino
        found = []
        for pid in self.ranks():
            try:
                if os.stat("/proc/%d/ns/net" % pid).st_ino == space:
                    found.append(pid)
            except OSError:
                pass
        return found

    def iteration_of(self, pid):
        try:
            if pid not in self.pages or not self.pages[pid].map:
                self.pages[pid] = Page(pid)
            return self.pages[pid].iteration()
        except OSError:
            return -1

    def iteration(self):
        return max([self.iteration_of(pid) for pid in self.ranks()] + [-1])

    def over(self):
        return not self.ranks() and \
            all(a.poll() is not None for a in self.agents)

    def dump_stacks(self):
        """Where every thread stands, to `stacks`, for whoever asks why."""
        with open(self.folder + "/stacks", "a") as out:
            for pid in self.ranks() if shutil.which("gdb") else ():
                out.write("process %d\n" % pid)
                out.flush()
                subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex",
                                "thread apply all bt 14"], stdout=out,
                               stderr=subprocess.DEVNULL)

    def views(self):
        """(process, its line) of the views that rank 0 told of."""
        with open(self.folder + "/log", errors="replace") as f:
            return re.findall(
                r"^I\S+ \S+ +(\d+) member_\w+\.c:\d+\] (View.*)", f.read(),
                re.M)

    def check_reloadings(self):
        """Counts iterations that were done again since a snapshot, which has
        to be as new as the newest one that was there when this was last
        called."""
        with open(self.folder + "/log", errors="replace") as f:
            found = re.findall(r"goes back from iteration (\d+) to (\d+)",
                               f.read())
        for begin, to in found[self.n_reloadings:]:
            if int(to) < self.written:
                raise RuntimeError("it went back to iteration %s, although "
                                   "there was a snapshot of %d" %
                                   (to, self.written))
            self.again += int(begin) - int(to)
        self.n_reloadings = len(found)
        self.written = self.newest_snapshot()

    def newest_snapshot(self):
        return max([int(name.split("_iter_")[1].split(".")[0])
                    for name in os.listdir(self.folder + "/disk")
                    if name.endswith(".solverstate")] + [0])

    def coordinator(self):
        """The pid that the log named last as it became rank 0."""
        found = self.views()
        return int(found[-1][0]) if found else None

    def may_lose_one(self):
        """Whether two ranks have what training has come to: with the last
        one that has it, it is gone.  By what they write themselves: the log
        may not have the last view yet, and who is about to leave is in it.
        Whoever was left out of that view stands at most one iteration behind
        its first.  Where a snapshot has it, some have to be left who know the
        job."""
        if self.reloads:
            return len([pid for pid in self.ranks() if pid not in self.leaving
                        and self.iteration_of(pid) > 0]) > 2
        found = self.views()
        at = re.search(r"go on at iteration (\d+)", found[-1][1]) \
            if found else None
        return at and self.iteration() > int(at.group(1)) + 3 and \
            len(self.holders()) > 1

    def holders(self):
        """The ranks that have what training has come to, and stay."""
        ranks = {pid: self.iteration_of(pid) for pid in self.ranks()
                 if pid not in self.leaving}
        newest = max(ranks.values(), default=-1)
        least = 1 if self.reloads else newest - 1
        return [pid for pid, n in ranks.items() if n >= least]

    def may_lose_another(self, holders, lost):
        """Whether two of these remain if one more of them is lost, and more
        than the others have to take for alive."""
        here = self.ranks()
        n = sum(pid in here and pid not in self.leaving and
                pid not in self.stopped for pid in holders)
        return n > max(2, lost + 1)

    def interrupt(self):
        for pid in [a.pid for a in self.agents if a.poll() is None] + \
                self.ranks(): # some of which have no agent any more
            try:
                os.kill(pid, signal.SIGINT)
            except OSError:
                pass

    def signal(self, number):
        """To all of its processes; agents first, for they start others."""
        sent = set()
        while True:
            pids = [a.pid for a in self.agents if a.poll() is None] + \
                self.ranks()
            if set(pids) <= sent:
                return
            for pid in pids:
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
            sent.update(pids)

    def stop(self):
        """Asks for a snapshot and the end; the iteration where that was."""
        end, again = time.monotonic() + 120, 0
        while self.ranks() or any(a.poll() is None for a in self.agents):
            if time.monotonic() > end:
                self.dump_stacks()
                raise RuntimeError("it does not come to its end")
            if time.monotonic() > again: # one may be lost as a process starts
                self.interrupt()
                again = time.monotonic() + 2
            time.sleep(0.05)
        return self.newest_snapshot()

    def result(self, iterations):
        """SHA-256 of the model, and what is wrong with its samples."""
        return result(self.got, self.folder, iterations)

    def end(self):
        for pid in self.ranks() + [a.pid for a in self.agents]:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for a in self.agents:
            a.wait()
        self.log.close()


def result(got, folder, iterations):
    model = "%s/disk/out_iter_%d.caffemodel" % (folder, iterations)
    if not os.path.exists(model):
        raise RuntimeError("it ended without a model")
    with open(model, "rb") as f:
        sha = hashlib.sha256(f.read()).hexdigest()
    return sha, miscounted(model, iterations * int(got["batch"]))


def prepare_data(got, root):
    subprocess.run([got["program"], "make_digits", "--train=2000",
                    "--test=200", root], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(root + "/pixel.pgm", "wb") as f:
        f.write(b"P5 1 1 255\n\0")
    with open(root + "/numbers.txt", "w") as f:
        for i in range(N_IDS):
            f.write("pixel.pgm %d\n" % i)
    subprocess.run([got["program"], "convert_imageset", "--gray", root + "/",
                    root + "/numbers.txt", root + "/numbers"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def prepare(got, mode, root, iterations=10000000):
    """A folder with the net and the solver of a training."""
    folder = tempfile.mkdtemp(dir=root)
    os.mkdir(folder + "/disk")
    counts_samples = mode in COUNTS
    rate = 0.001 if mode == "adam" else 0.01
    with open(HOME + "/examples/digits/lenet_train_test.prototxt") as f:
        text = f.read().replace("build/demo/", root + "/")
    text = text.replace("batch_size: 64", "batch_size: " + got["batch"])
    if counts_samples:
        text += COUNTER % {"root": root, "batch": int(got["batch"]), "n": N_IDS,
                           "rate": int(got["batch"]) / rate}
    with open(folder + "/net.prototxt", "w") as f:
        f.write(text)
    with open(folder + "/solver.prototxt", "w") as f:
        f.write(SOLVER % {
            "folder": folder, "rate": rate,
            "type": "Adam" if mode == "adam" else "SGD",
            "momentum": 0 if counts_samples else 0.9,
            "decay": 0 if counts_samples else 0.0005,
            "snapshot": 20 if mode in RELOADS else 100,
            "iterations": iterations})
    return folder


def test_loss(got, folder, iterations):
    """Of the net that a training came to, on samples that it has not seen."""
    out = subprocess.run(
        [got["program"], "test", "--threads=1", "--iterations=10",
         "--model=%s/net.prototxt" % folder,
         "--weights=%s/disk/out_iter_%d.caffemodel" % (folder, iterations)],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return float(re.search(rb"Loss: (\S+)", out.stdout).group(1))


def calm(got, mode, root, iterations):
    """The test loss of the same job if nothing happens to it."""
    job = Job(got, mode, 0, prepare(got, mode, root, iterations))
    end = time.monotonic() + 600
    try:
        for _ in range(int(got["agents"])):
            job.start(int(got["ranks"]))
        while not job.over():
            if time.monotonic() > end:
                raise RuntimeError("the job without faults does not end")
            time.sleep(0.1)
    finally:
        job.end()
    return test_loss(got, job.folder, iterations)


def alone(got, mode, root, iterations):
    """What one rank by itself comes to."""
    folder = prepare(got, mode, root, iterations)
    with open(folder + "/log", "w") as log:
        subprocess.run([got["program"], "train", "--threads=1",
                        "--solver=%s/solver.prototxt" % folder] +
                       MODES[mode] + ["--batch=global"],
                       check=True, stdout=log, stderr=log)
    return result(got, folder, iterations)
