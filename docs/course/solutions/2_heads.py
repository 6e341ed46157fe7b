"""Solution 2. The valid permutations are S_(dim / heads) wr S_heads: every block of dim / heads features goes to a block."""


def keeps_heads(p: list[int], heads: int) -> bool:
    size = len(p) // heads
    return all(len({p[h * size + i] // size for i in range(size)}) == 1 for h in range(heads))


def breaking_swap(dim: int, heads: int) -> tuple[int, int] | None:
    size = dim // heads
    if heads == 1 or size == 1:  # one block, or blocks of one element: every permutation keeps them
        return None
    return 0, size  # the first feature of the first head and of the second
