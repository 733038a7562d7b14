"""From the registers that hold a tile's sums to the outputs by the copy engine, each warp by itself, a box at a time.

A box is 16 rows of 128 bytes, those of a warp in 64 rows of an instruction. A warp has a few places for boxes:

    before its tile's products    ask for the first boxes of what the fused operations read of each element
    for each box                  wait for what is read of it -> take it into registers -> evaluate -> write the results
                                  over it -> the copy engine takes them away -> ask for a box that is read later

Why it is so:

- `ldmatrix` and `stmatrix` move between rows of shared memory and fragments as sums lie in registers: two neighbours a
  thread. No lane gives another one anything, no warp waits for another one, and there are no addresses of elements.
  Neighbours of f32 are 8 bytes, which each thread moves itself.
- The copy engine reads and writes whole rows of 128 bytes, and leaves out what is beyond the tensor. So tiles that
  reach beyond it are as others. What does not lie in boxes, as biases, is read at the nearest place that exists.
- Boxes come while the products are under way, and go while the other group multiplies.
"""
