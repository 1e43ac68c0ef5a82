"""The examples learn: the transformer with the losses that PyTorch has from the same weights and windows, the digits fused and unfused.

A slice of the run compares 20 steps, or trains the network of layers for 3 epochs; all of it does both, compares 100 steps
and trains the convolutional network until it reads 0.98 of the held-out digits. PyTorch is that of this Python or of
PEERS_PYTHON; without one only the falling of the loss is looked at.
"""
import argparse
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import fusion
import harness
from tables import ROOT

# Steps, and how far losses may be apart.
NO_PYTORCH = "there is no PyTorch; set PEERS_PYTHON to a Python that has it"
AGREES = ((20, 1e-4), (100, 1e-2))
PEER = os.path.join(ROOT, "client", "examples", "transformer", "peer.py")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr[-2000:]}")
    return done.stdout


def peer_losses(dump, steps):
    """PyTorch's losses, or None where there is no PyTorch."""
    python = os.environ.get("PEERS_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
        return None
    return [float(line) for line in run([python, PEER, dump, str(steps)]).split()]


def check_transformer(report, daemon, whole):
    steps = AGREES[-1][0] if whole else AGREES[0][0]
    dump = os.path.join(daemon.folder, "windows")
    losses = [float(line) for line in
              run([os.path.join(fusion.BUILD, "transformer"), "--socket", daemon.socket, "--steps", str(steps), "--dump", dump]).split()]
    report.check(len(losses) == steps and losses[-1] < losses[0], "the transformer learns", str(losses[:3] + losses[-3:]))
    theirs = peer_losses(dump, steps)
    if theirs is None:
        for count, _ in AGREES:
            if count <= steps:
                report.skip(f"the losses of {count} steps are PyTorch's", NO_PYTORCH)
        return
    for count, apart in AGREES:
        worst = max((abs(a - b) for a, b in zip(losses[:count], theirs)), default=0)
        if count <= steps:
            report.check(worst <= apart, f"the losses of {count} steps are PyTorch's", f"{worst:.3g} apart")
            print(f"losses of {count} steps: at most {worst:.2g} from PyTorch's")


def digits(daemon, *options):
    lines = run([os.path.join(fusion.BUILD, "digits"), "--json", "--socket", daemon.socket, *options]).splitlines()
    return json.loads(lines[-1])


def check_digits(report, daemon, whole):
    fused, unfused = (digits(daemon, "--epochs", "3", "--fusion", s) for s in ("on", "off"))
    report.check(fused["weights"] == unfused["weights"], "the digits' weights have the same bits unfused", "they differ")
    report.check(fused["loss"] < 0.3, "the digits are learnt", str(fused["loss"]))
    if not whole:
        return
    curve = os.path.join(daemon.folder, "curve.svg")
    result = digits(daemon, "--network", "conv", "--epochs", "30", "--curve", curve)
    report.check(result["accuracy"] >= 0.98, "the convolutional network reads 0.98", str(result["accuracy"]))
    report.check("polyline" in xml.etree.ElementTree.parse(curve).getroot().findall("*")[-1].tag, "the curve is drawn", curve)


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    # All steps and epochs are a case of their own, which one slice of all has.
    whole, report = harness.in_slice(0), harness.Report()
    with fusion.Daemon() as daemon:
        for check in (check_transformer, check_digits) if whole else harness.rotated([check_transformer, check_digits]):
            check(report, daemon, whole)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
