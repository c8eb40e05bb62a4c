"""Firefox/Bergamot translation models (Marian files), read and run in numpy and numba: no engine, no torch.

    binary → architecture → network (layers, kernels, microkernel) → output → sampling (trie, random)

A row's result never depends on the other rows of its batch, to the last bit: see ``microkernel``.
"""
