"""The store of one attempt: what its ranks share with each other, and with no attempt before it.

torchrun can keep one store over all attempts. Each key of an attempt then outlives its ranks, and a rank of the next
attempt reads the address of a rank that has ended: https://github.com/pytorch/pytorch/issues/135712 (read 2026-11-28).
The environment of a rank has nothing that is common to its attempt and new in each. TORCHELASTIC_RESTART_COUNT differs
between the hosts of an attempt if one of them joined later.

So rank 0 makes a number for the attempt, and hands it to each rank that runs now:

- A rank writes a random number of its own under `rank/<N>`, and waits for the answer under this number.
- Rank 0 answers every number that it finds there, and looks again until each rank has confirmed the attempt's number.

A number that an ended rank left costs an answer that nobody reads.
"""

import time
import uuid
from collections.abc import Callable

from torch._C._distributed_c10d import PrefixStore, Store  # the public names are not declared as exported

# Rank 0 asks the store twice for each missing rank. It is on the same host, so this is most of its work at size.
_LOOKS_PER_SECOND, _MOST_SECONDS_BETWEEN_LOOKS = 4000, 0.5
_LEAST_SECONDS_BETWEEN_LOOKS = 0.01
_NAMED = 8


def store_of_attempt(store: Store, rank: int, ranks: int, awaits: Callable[[str], None]) -> Store:
    """Return the part of `store` that only the `ranks` ranks of this attempt use. Every rank calls this, and waits.

    `awaits` is told for whom this rank waits, whenever that changes.

    Raises:
        torch.distributed.DistError: the store has ended, or the others have not come within its timeout.
    """
    own = PrefixStore("trainway/attempt", store)
    if rank == 0:
        attempt = _gather(own, ranks, awaits)
    else:
        awaits("rank 0 does not answer")
        attempt = _ask(own, rank)
    return PrefixStore(attempt, own)


def _ask(store: Store, rank: int) -> str:
    number = uuid.uuid4().hex
    store.set(f"rank/{rank}", number)
    attempt: str = store.get(f"answer/{number}").decode()
    store.delete_key(f"answer/{number}")
    store.set(f"{attempt}/rank/{rank}", "")
    return attempt


def _gather(store: Store, ranks: int, awaits: Callable[[str], None]) -> str:
    attempt = uuid.uuid4().hex[:8]
    # The number of each missing rank that was answered last.
    missing: dict[int, bytes] = dict.fromkeys(range(1, ranks), b"")
    while missing:
        before = len(missing)
        for rank, answered in list(missing.items()):
            if store.check([f"{attempt}/rank/{rank}"]):
                del missing[rank]
            elif store.check([f"rank/{rank}"]) and (number := store.get(f"rank/{rank}")) != answered:
                store.set(f"answer/{number.decode()}", attempt)
                missing[rank] = number
        if missing:
            if len(missing) < before or before == ranks - 1:
                awaits(_named(missing, ranks))
            seconds = len(missing) / _LOOKS_PER_SECOND
            time.sleep(min(max(seconds, _LEAST_SECONDS_BETWEEN_LOOKS), _MOST_SECONDS_BETWEEN_LOOKS))
    return attempt


def _named(missing: dict[int, bytes], ranks: int) -> str:
    named = ", ".join(str(rank) for rank in list(missing)[:_NAMED])
    rest = f", and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    verb = "has" if len(missing) == 1 else "have"
    return f"{len(missing)} of {ranks} ranks {verb} not come: {named}{rest}"
