"""Finds the program `cortado` and runs its bench command."""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))


def find(given=None):
    """The program's path: the one given, else this project's or a bundle's,
    else the one in PATH."""
    places = [given] if given else [
        os.path.join(ROOT, "build", "cortado"),
        os.path.join(ROOT, "bin", "cortado"),
        os.path.join(ROOT, "cortado"),
        shutil.which("cortado") or "",
    ]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return os.path.abspath(place)
    sys.exit("bench: no program `cortado` (%s): build it, or give "
             "--program=PATH" % ", ".join(p for p in places if p))


def environment(threads):
    return dict(os.environ, OMP_NUM_THREADS=str(threads))


def run_json(command, threads):
    """What a process prints as JSON; it ends us when it fails."""
    done = subprocess.run(command, env=environment(threads),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)
    if done.returncode != 0:
        sys.exit("bench: %s\nfailed with %d:\n%s"
                 % (" ".join(command), done.returncode, done.stderr[-2000:]))
    return json.loads(done.stdout)


def bench(program, model, threads, seconds, layers=False, on_cores=False,
          precision="fp32"):
    command = [program, "bench", "--model=" + model,
               "--threads=%d" % threads, "--seconds=%g" % seconds,
               "--precision=" + precision]
    command += ["--layers"] * layers + ["--cpu"] * on_cores
    return run_json(command, threads)
