"""Elastic jobs of the program for tests: each trains LeNet on drawn digits, and
everything is on this machine.  The first argument of a test is the program."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import look_at

HOME = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PROGRAM = os.path.abspath(sys.argv[1])
ROOT = tempfile.mkdtemp(prefix="jobs")
os.environ["HOME"] = ROOT
os.environ["OMP_NUM_THREADS"] = "1"
passed = failed = 0
started = []
asked_at = []

SOLVER = """net: "%s/%s.prototxt" base_lr: 0.01 momentum: 0.9
lr_policy: "fixed" display: 100 max_iter: %d snapshot_prefix: "%s/%s"
snapshot: %d snapshot_keep: 3 random_seed: 1 solver_mode: CPU
snapshot_after_train: %s
"""


def check(name, well, more=""):
    global passed, failed
    passed, failed = passed + bool(well), failed + (not well)
    print("%-7s %s" % ("ok" if well else "FAILED", name), flush=True)
    if not well:
        print(str(more)[-3000:])
        look()


def look():
    """For whoever has to find out: the job that was asked of last, and what the
    threads of all processes are at."""
    for address in asked_at[-1:]:
        try:
            out = subprocess.run([PROGRAM, "jobs", address], cwd=ROOT,
                                 stdout=subprocess.PIPE, timeout=20,
                                 stderr=subprocess.STDOUT)
            print(out.stdout.decode(errors="replace"))
        except subprocess.TimeoutExpired:
            print("'cortado jobs %s' does not come to an end" % address)
    look_at.print_processes([p.pid for p in started if p.poll() is None])


def too_long(number, frame):
    raise TimeoutError("the whole test takes too long")


def start(name, iterations, words, before=(), logs=None, snapshots=50,
          folder=ROOT, net="net"):
    with open("%s/%s.prototxt" % (ROOT, name), "w") as f:
        f.write(SOLVER % (ROOT, net, iterations, ROOT, name, snapshots,
                          "true" if snapshots else "false"))
    with open("%s/%s.log" % (ROOT, logs or name), "w") as log:
        started.append(subprocess.Popen(
            [PROGRAM] + list(before) +
            ["train", "--threads=1", "--solver=%s/%s.prototxt" % (ROOT, name)]
            + words, cwd=folder, stderr=log))
    return started[-1]


def start_mpi(*what):
    """The same of a job of MPI, whose leaks and locks are not ours."""
    ours = dict(os.environ)
    for name, more in (("ASAN_OPTIONS", "detect_leaks=0"),
                       ("TSAN_OPTIONS", "detect_deadlocks=0")):
        os.environ[name] = ours.get(name, "") + ":" + more
    p = start(*what)
    os.environ.clear()
    os.environ.update(ours)
    return p


def log(name):
    with open("%s/%s.log" % (ROOT, name)) as f:
        return f.read()


def until(what, seconds=60, pause=0.1):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if what():
                return True
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(pause)
    return False


def job(address):
    """A rank that is asked as it ends says nothing; another one does then."""
    asked_at.append(address)
    for _ in range(5):
        out = subprocess.run([PROGRAM, "jobs", "--json", address], cwd=ROOT,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if out.stdout:
            break
        time.sleep(0.2)
    return json.loads(out.stdout)


def ranks(address, n):
    return lambda: job(address)["ranks"] == n and job(address)["iteration"] > 0


def written(name, end):
    """A file that job `name` has written, or None."""
    return next((ROOT + "/" + n for n in os.listdir(ROOT)
                 if re.match(r"%s_iter_\d+\.%s$" % (name, end), n) and
                 "_iter_90000" not in n), None)


def leave_old(name):
    """A snapshot of a run long ago, which had the same prefix."""
    if not written("a", "caffemodel"):
        start("a", 50, []).wait(60)
    old = "%s/%s_iter_90000" % (ROOT, name)
    for end in ("caffemodel", "solverstate"):
        shutil.copy(written("a", end), "%s.%s" % (old, end))
        os.utime("%s.%s" % (old, end), (1, 1))


def replaced(where, old, n):
    """Until n ranks train, none of which is one of the old."""
    return until(lambda: not set(old) & {m["process"] for m in
                                         job(where)["members"]}) and \
        until(ranks(where, n))


def kill_rank(where, number):
    """Kills that rank of a job, and waits until it is replaced."""
    one = job(where)["members"][number]["process"]
    os.kill(one, signal.SIGKILL)
    return until(lambda: one not in [m["process"]
                                     for m in job(where)["members"]]) and \
        until(ranks(where, 2))


def kill_all(where):
    """All ranks of a job at once; returns how far it was."""
    at = job(where)
    for one in at["members"]:
        os.kill(one["process"], signal.SIGSTOP)
    for one in at["members"]:
        os.kill(one["process"], signal.SIGKILL)
    return at["iteration"]


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(n) for n in f.read().split()]
    except OSError:
        return []


def end_all(pids):
    """What a test that failed has left: a rank outlives its agent."""
    for pid in pids:
        end_all(children(pid))
        os.kill(pid, signal.SIGKILL)


def goes_on(where):
    at = job(where)["iteration"]
    return until(lambda: job(where)["iteration"] > at + 5)


def make_data():
    subprocess.run([PROGRAM, "make_digits", "--train=500", "--test=10", ROOT],
                   check=True, stderr=subprocess.DEVNULL)
    with open(HOME + "/examples/digits/lenet_train_test.prototxt") as f:
        text = f.read().replace("build/demo/", ROOT + "/")
    text = text.replace("batch_size: 64", "batch_size: 16")
    with open(ROOT + "/net.prototxt", "w") as f:
        f.write(text)


def run(tests, seconds):
    """Runs these functions, or those that the command line names behind two
    words, or, behind `but`, does not name, and ends this process before ctest
    ends it without a word."""
    named = sys.argv[3:]
    others = named[:1] == ["but"]
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        make_data()
        for one in tests:
            if not named or (one.__name__ in named) != others:
                begin = time.monotonic()
                one()
                print("%s took %.0f s" % (one.__name__,
                                          time.monotonic() - begin))
        print("%d passed, %d failed" % (passed, failed))
    except (TimeoutError, subprocess.TimeoutExpired):
        look()
        for name in sorted(os.listdir(ROOT)):
            if name.endswith(".log"):
                print("%s:\n%s" % (name, log(name[:-4])[-2000:]))
        raise
    finally:
        end_all([p.pid for p in started if p.poll() is None])
        shutil.rmtree(ROOT)
    sys.exit(bool(failed))
