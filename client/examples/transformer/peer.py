"""The network of transformer.c in PyTorch, from the file that `transformer --dump FILE` wrote: prints the loss of each step.

usage: peer.py FILE STEPS
"""
import sys

import numpy as np
import torch
import torch.nn.functional as F

BATCH, LENGTH, WIDTH, HEADS, LETTERS = 8, 32, 32, 4, 32
INNER = 4 * WIDTH
SHAPES = [(LETTERS, WIDTH), (LENGTH, WIDTH), (WIDTH,), (WIDTH,), (WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH),
          (WIDTH,), (WIDTH,), (INNER, WIDTH), (WIDTH, INNER), (WIDTH,), (LETTERS, WIDTH)]


def heads(x, weight):
    return (x @ weight.T).reshape(BATCH, LENGTH, HEADS, -1).transpose(1, 2)


def loss_of(w, seen, following):
    token, place, norm1, bias1, query, key, value, out, norm2, bias2, up, down, norm3, head = w
    x = F.embedding(seen, token) + place
    n = F.layer_norm(x, (WIDTH,), norm1, bias1)
    y = F.scaled_dot_product_attention(heads(n, query), heads(n, key), heads(n, value), is_causal=True)
    x = x + y.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH) @ out.T
    x = x + F.gelu(F.layer_norm(x, (WIDTH,), norm2, bias2) @ up.T) @ down.T
    score = F.layer_norm(x, (WIDTH,), norm3) @ head.T
    return F.cross_entropy(score.reshape(-1, LETTERS), following.reshape(-1))


def main():
    with open(sys.argv[1], "rb") as f:
        data = f.read()
    at, w = 0, []
    for shape in SHAPES:
        n = int(np.prod(shape))
        w.append(torch.tensor(np.frombuffer(data, "<f4", n, at).reshape(shape).copy(), requires_grad=True))
        at += 4 * n
    optimiser = torch.optim.AdamW(w, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
    for _ in range(int(sys.argv[2])):
        seen, following = (torch.tensor(np.frombuffer(data, "<i4", BATCH * LENGTH, at + i * 4 * BATCH * LENGTH)
                                        .reshape(BATCH, LENGTH).astype("i8")) for i in (0, 1))
        at += 2 * 4 * BATCH * LENGTH
        loss = loss_of(w, seen, following)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        print(f"{loss.item():.9g}")


if __name__ == "__main__":
    main()
