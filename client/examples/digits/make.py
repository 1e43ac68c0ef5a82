"""Writes digits.bin from the digits that scikit-learn ships; see README.md.

usage: python make.py SITE-PACKAGES/sklearn/datasets/data/digits.csv.gz digits.bin
"""
import gzip
import sys

ROWS, PIXELS = 1797, 64

with gzip.open(sys.argv[1], "rt") as source:
    rows = [[int(float(cell)) for cell in line.split(",")] for line in source if line.strip()]

assert len(rows) == ROWS and all(len(row) == PIXELS + 1 for row in rows)
assert all(0 <= pixel <= 16 for row in rows for pixel in row[:PIXELS])
assert all(0 <= row[PIXELS] <= 9 for row in rows)

with open(sys.argv[2], "wb") as out:
    for row in rows:
        out.write(bytes(row))
