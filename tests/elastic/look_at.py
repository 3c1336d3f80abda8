"""What processes wait for: for a test that failed, or waits too long."""
import os
import shutil
import subprocess

STATES = {"01": "established", "02": "calling", "03": "answering",
          "06": "time-wait", "08": "closed by the other", "0A": "listening"}


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read().replace("\0", " ").strip()
    except OSError as error:
        return "(%s)" % error.strerror


def below(pid):
    """That process and those that it started, and they."""
    found = [pid]
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return []
    for task in tasks:
        for child in read("/proc/%d/task/%s/children" % (pid, task)).split():
            if child.isdigit():
                found += below(int(child))
    return found


def sockets(pid):
    """Lines on its TCP sockets: both ends, state, bytes not yet sent or
    read."""
    mine = set()
    try:
        for fd in os.listdir("/proc/%d/fd" % pid):
            mine.add(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
    except OSError:
        pass
    lines = []
    for table in ("tcp", "tcp6"):
        for line in read("/proc/%d/net/%s" % (pid, table)).splitlines()[1:]:
            words = line.split()
            if "socket:[%s]" % words[9] in mine:
                ends = [word[-4:] for word in words[1:3]]
                unsent, unread = (int(n, 16) for n in words[4].split(":"))
                lines.append("port %d to %d %s, %d unsent, %d unread" % (
                    int(ends[0], 16), int(ends[1], 16),
                    STATES.get(words[3], words[3]), unsent, unread))
    return lines


def threads(pid):
    """Lines on its threads: name, state, what it waits for in the kernel."""
    for task in sorted(os.listdir("/proc/%d/task" % pid), key=int):
        at = "/proc/%d/task/%s/" % (pid, task)
        state = read(at + "stat").rpartition(")")[2].split()[:1]
        yield "thread %s (%s) %s in %s, call %s" % (
            task, read(at + "comm"), "".join(state), read(at + "wchan"),
            read(at + "syscall"))


def stacks(pid):
    if not shutil.which("gdb"):
        return []
    try:
        out = subprocess.run(
            ["gdb", "-p", str(pid), "-batch", "-nx", "-ex",
             "thread apply all bt 12"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, universal_newlines=True, timeout=30)
    except subprocess.TimeoutExpired:
        return ["gdb does not come to an end"]
    return [line for line in out.stdout.splitlines()
            if line.startswith(("#", "Thread"))]


def print_processes(pids):
    """All of these, with what they started."""
    for pid in [one for pid in pids for one in below(pid)]:
        print("process %d: %s" % (pid, read("/proc/%d/cmdline" % pid)[-200:]))
        try:
            for line in [*threads(pid), *sockets(pid), *stacks(pid)]:
                print("    " + line)
        except OSError:
            print("    it has ended")
    print(end="", flush=True)
