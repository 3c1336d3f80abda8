"""storm_job.py - training jobs in a folder of their own, and the processes
that they are made of.  For bench/storm and bench/soak."""
import os
import pathlib
import re
import signal
import subprocess
import time

MARK = 'CORTADO_STORM_JOB'  # in the environment of all processes of a job

NET = '''name: "storm"
layer { name: "d" type: "Data" top: "data" top: "label"
  include { phase: TRAIN } transform_param { scale: 0.00390625 mirror: true }
  data_param { source: "DATA/digits_train_lmdb" batch_size: BATCH
               backend: LMDB shuffle: true } }
layer { name: "d" type: "Data" top: "data" top: "label"
  include { phase: TEST } transform_param { scale: 0.00390625 }
  data_param { source: "DATA/digits_test_lmdb" batch_size: 32
               backend: LMDB } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 6 kernel_size: 5 stride: 2
  weight_filler { type: "xavier" } } }
layer { name: "p" type: "Pooling" bottom: "c" top: "p"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "f" type: "InnerProduct" bottom: "p" top: "f"
  inner_product_param { num_output: 48 weight_filler { type: "xavier" } } }
layer { name: "r" type: "ReLU" bottom: "f" top: "f" }
layer { name: "o" type: "Dropout" bottom: "f" top: "f" }
layer { name: "g" type: "InnerProduct" bottom: "f" top: "g"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "g" bottom: "label"
  top: "loss" }
'''

SOLVER = '''net: "net.prototxt" base_lr: 0.02 lr_policy: "step" gamma: 0.7
stepsize: 20 momentum: 0.9 weight_decay: 0.0005 max_iter: ITERS display: 1
random_seed: 7 snapshot: EVERY snapshot_prefix: "s" solver_mode: CPU
test_iter: 1 test_interval: 25 test_initialization: false
'''


def environment(mark):
    """One thread per rank, nothing measured, root allowed, a mark."""
    return dict(os.environ, OMP_NUM_THREADS='1', OMP_WAIT_POLICY='passive',
                CORTADO_TUNE='off', OMPI_ALLOW_RUN_AS_ROOT='1',
                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', **{MARK: mark})


def make_data(cortado, folder):
    subprocess.run([cortado, 'make_digits', '--train=480', '--test=64',
                    str(folder)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def fill_folder(folder, data, batch, iters, every, net=None):
    folder.mkdir(parents=True, exist_ok=True)
    text = (net or NET).replace('DATA', str(data))
    (folder / 'net.prototxt').write_text(text.replace('BATCH', str(batch)))
    text = SOLVER.replace('ITERS', str(iters)).replace('EVERY', str(every))
    (folder / 'solver.prototxt').write_text(text)


def processes(mark):
    """(pid, rank or None, name) of all that have this mark."""
    out = []
    wanted = ('%s=%s' % (MARK, mark)).encode()
    for entry in pathlib.Path('/proc').iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / 'environ').read_bytes().split(b'\0')
            if wanted not in words:
                continue
            name = (entry / 'comm').read_text().strip()
            state = (entry / 'stat').read_text().rsplit(')', 1)[1].split()[0]
        except OSError:
            continue
        rank = None
        for word in words:
            for key in (b'OMPI_COMM_WORLD_RANK=', b'PMI_RANK='):
                if word.startswith(key):
                    rank = int(word[len(key):])
        if state != 'Z':
            out.append((int(entry.name), rank, name))
    return out


class Job:
    """cortado train in `folder`, with as many ranks as are named."""

    def __init__(self, cortado, folder, mark, ranks, flags):
        self.folder, self.mark, self.log = folder, mark, folder / 'log'
        call = [cortado, 'train', '--solver=solver.prototxt'] + flags
        if ranks > 1:
            call.append('--ranks=%d' % ranks)
        self.begun = time.monotonic()
        self.out = open(self.log, 'wb')
        self.process = subprocess.Popen(
            call, cwd=folder, stdout=self.out, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, env=environment(mark),
            start_new_session=True)

    def text(self):
        return self.log.read_text(errors='replace')

    def seconds(self):
        return time.monotonic() - self.begun

    def await_line(self, pattern, limit):
        """Until the log has it; False: the job has ended."""
        while self.process.poll() is None and self.seconds() < limit:
            if re.search(pattern, self.text()):
                return True
            time.sleep(0.01)
        return False

    def ranks(self):
        """Processes that train, by rank; one alone is rank 0."""
        return {rank or 0: pid for pid, rank, name in processes(self.mark)
                if name == 'cortado' and
                (rank is not None or pid == self.process.pid)}

    def launcher(self):
        for pid, rank, name in processes(self.mark):
            if rank is None and name not in ('cortado', 'ct_witness'):
                return pid
        return None

    def wait(self, limit):
        """The exit status; None: it did not end within the limit."""
        try:
            code = self.process.wait(max(0.1, limit - self.seconds()))
        except subprocess.TimeoutExpired:
            code = None
        self.out.close()
        return code

    def left(self, seconds):
        """Processes that are still there so long after the end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not processes(self.mark):
                return []
            time.sleep(0.05)
        return processes(self.mark)

    def end(self):
        """All of it, by force."""
        for _ in range(3):
            for pid, _, _ in processes(self.mark):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.1)
        self.process.wait()
