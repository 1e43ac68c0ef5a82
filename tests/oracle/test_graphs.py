"""The values that the text graphs of tests/graphs/ expect are those of NumPy and the reference, not of fusiond.

A run takes its slice of the graphs; a wrong value would show in run_graphs, which takes all of them, too."""
import glob
import os
import sys

GRAPHS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "graphs")
sys.path.insert(0, GRAPHS)
import evaluate  # noqa: E402
import harness  # noqa: E402

files = sorted(glob.glob(os.path.join(GRAPHS, "*.fz")))
if not files:
    sys.exit("tests/graphs/ holds no graphs")
sys.exit(evaluate.main(harness.rotated(files)))
