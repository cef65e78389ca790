"""Tensors that are rebuilt from others which change or die, in a budget that does not hold all of them at once.

    python heirs.py WHAT [POLICY]        prints a digest of all that was made, how many ops ran again, and the bytes left over

`overwritten`: what a dropped tensor is made from changes, in a budget that holds the op or the rebuild, not both.
`chain`: each link is made from the one before, and all are dropped; all but the last die before that is read. Another chain
is never read. `watched`: one is read while a dispatch mode of the program looks on.
"""

import hashlib
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import spillway
from spillway import native

LENGTH = 1 << 18
BUDGETED = len(sys.argv) > 2


def drop(tensor) -> None:
    if BUDGETED:
        native.load().drop(tensor._cdata)


def overwritten(draw):
    source, *others = (torch.rand(LENGTH, generator=draw) for _ in range(5))
    heir = source.sin()
    drop(heir)
    torch.cat([other[: LENGTH // 4] for other in others], out=source)
    return heir, source, *others


def end_of_chain(source):
    links = [source]
    for _ in range(7):
        links.append(links[-1].sin())
        if len(links) > 2:
            drop(links[-2])
    drop(links[-1])
    return links[-1]


def chain(draw):
    source = torch.rand(LENGTH, generator=draw)
    end, unread = end_of_chain(source), end_of_chain(source)
    del unread
    return source, end


class Seen(TorchDispatchMode):
    """Counts the program's own operators."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def watched(draw):
    """Read where no operator runs: what is made again for it is not the program's."""
    source = torch.rand(LENGTH, generator=draw)
    copy = source.view(-1, 2).t().clone(memory_format=torch.contiguous_format)  # a kernel that calls others
    drop(copy)
    with Seen() as of_one_that_is_here:
        source.numpy()
    with Seen() as seen:
        read = copy.numpy()
    assert seen.count == of_one_that_is_here.count, f"{seen.count - of_one_that_is_here.count} ops of a rebuild were seen"
    return source, torch.from_numpy(read)


def main() -> None:
    torch.set_num_threads(1)
    if BUDGETED:
        spillway.enable(LENGTH * 4 * 11 // 2, device="cpu", policy=sys.argv[2])
    state = hashlib.sha256()
    made = {"overwritten": overwritten, "chain": chain, "watched": watched}[sys.argv[1]](torch.Generator().manual_seed(1))
    for tensor in made:
        state.update(tensor.clone().numpy().tobytes())
    del made, tensor
    stats = spillway.stats() if BUDGETED else {"recomputed_ops": 0, "live_bytes": 0}
    print(state.hexdigest(), stats["recomputed_ops"], stats["live_bytes"])


main()
