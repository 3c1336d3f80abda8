"""Who this process is among those that train together.

``rank`` and ``count`` are what nets and solvers made from now on are told.
``quiet`` is set where another rank writes the log.
"""

import numpy as np

rank = 0
count = 1
quiet = False


class Deal:
    """Deals the indices 0..n-1 out to the ranks, batch by batch.

    In pass p rank r of c gets places (p c + r) b .. + b of an endless row:
    the indices in order, or a fresh permutation of them every time all have
    been dealt.  It is a function of the pass, so it continues after a resume.

    `shard` is for ranks with unequal parts or several passes a step: (step,
    first, batch, share), and pass p starts at place p // share * step + first
    + p % share * batch.
    """

    def __init__(self, n, batch, rank=0, count=1, seed=0, shuffle=True,
                 shard=None):
        if n < 1 or batch < 1:
            raise ValueError('%d samples in batches of %d' % (n, batch))
        self.n, self.batch = int(n), int(batch)
        self.rank, self.count = rank, count
        self.seed, self.shuffle = int(seed), shuffle
        self.shard = shard or (count * self.batch, rank * self.batch,
                               self.batch, 1)
        self.passes = 0
        self._epoch = self._order = None

    def seek(self, n_passes: int) -> None:
        """Continue as if n_passes batches had been dealt to every rank."""
        self.passes = int(n_passes)

    def _at(self, epoch):
        if not self.shuffle:
            return np.arange(self.n)
        if epoch != self._epoch:
            words = [self.seed & 0xffffffff, self.seed >> 32 & 0xffffffff,
                     epoch]
            self._order = np.random.RandomState(words).permutation(self.n)
            self._epoch = epoch
        return self._order

    def next(self) -> np.ndarray:
        """This rank's next batch of indices."""
        step, first, batch, share = self.shard
        start = (self.passes // share * step + first +
                 self.passes % share * batch)
        self.passes += 1
        out = np.empty(self.batch, np.int64)
        done = 0
        while done < self.batch:
            epoch, place = divmod(start + done, self.n)
            part = self._at(epoch)[place:place + self.batch - done]
            out[done:done + len(part)] = part
            done += len(part)
        return out

    __next__ = next

    def __iter__(self):
        return self
