#!/usr/bin/env python3
"""Is standard input text in Prometheus' exposition format, with names by its conventions? Prints the samples' number.

Strict: every metric has HELP and TYPE, once and before its samples, which stand together; no sample comes twice; counters are
finite, not negative and end in _total, others do not; units are seconds and bytes; labels are quoted right; the last line ends.
"""
import math
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (\S+)$")
UNITS_NOT_BASE = ("_ms", "_us", "_ns", "_milliseconds", "_microseconds", "_nanoseconds", "_kb", "_kilobytes", "_megabytes", "_minutes")


def refuse(number, line, why):
    sys.exit(f"line {number}: {why}: {line}")


def check_name(number, line, name, kind):
    if kind not in ("counter", "gauge", "histogram", "summary", "untyped"):
        refuse(number, line, "no type")
    if (kind == "counter") != name.endswith("_total"):
        refuse(number, line, "_total is for counters, and for all of them")
    bare = name.removesuffix("_total")
    if bare.endswith(UNITS_NOT_BASE) or re.search(r"[A-Z]", name) or not name.startswith("fusiond_"):
        refuse(number, line, "a name against the conventions")


def check_histogram(number, line, name, base, labels, value, histograms):
    """Steps grow, never fall, and the last one is the count."""
    rest = ",".join(part for part in labels.split(",") if not part.startswith("le="))
    steps, ends = histograms.setdefault((base, rest), ([], []))
    if name.endswith("_bucket"):
        end = re.search(r'le="([^"]*)"', labels)
        if not end or (ends and not float(end.group(1)) > ends[-1]) or (steps and float(value) < steps[-1]):
            refuse(number, line, "a step that does not grow")
        ends.append(float(end.group(1)))
        steps.append(float(value))
    elif not ends or not math.isinf(ends[-1]):
        refuse(number, line, "no last step")
    elif name.endswith("_count") and float(value) != steps[-1]:
        refuse(number, line, "the count is not that of the last step")


def main():
    text = sys.stdin.read()
    if not text.endswith("\n"):
        sys.exit("the last line does not end")
    histograms = {}
    helped, kinds, seen, finished, current = set(), {}, set(), set(), None
    for number, line in enumerate(text.splitlines(), 1):
        meta = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line)
        if meta:
            what, name, rest = meta.groups()
            known = helped if what == "HELP" else kinds
            if name in known:
                refuse(number, line, "twice")
            if name in finished or name == current:
                refuse(number, line, "after its samples")
            if what == "HELP":
                helped.add(name)
            else:
                check_name(number, line, name, rest)
                kinds[name] = rest
            continue
        match = SAMPLE.fullmatch(line)
        if not match:
            refuse(number, line, "neither a comment nor a sample")
        name, labels, value = match.group(1), match.group(2) or "", match.group(match.lastindex)
        base = re.sub("_(bucket|sum|count)$", "", name)
        if kinds.get(base) == "histogram":
            check_histogram(number, line, name, base, labels, value, histograms)
            name = base
        if name not in helped or name not in kinds:
            refuse(number, line, "a sample without HELP and TYPE")
        if name != current:
            if name in finished:
                refuse(number, line, "samples of a metric stand apart")
            finished.add(name)
            current = name
        pairs = re.findall(LABEL, labels)
        if len({key for key, _ in pairs}) != len(pairs):
            refuse(number, line, "a label twice")
        sample = (match.group(1), frozenset(pairs))
        if sample in seen:
            refuse(number, line, "a sample twice")
        seen.add(sample)
        if kinds[name] == "counter" and not (math.isfinite(float(value)) and float(value) >= 0):
            refuse(number, line, "a counter that is no count")
    if helped != set(kinds):
        sys.exit(f"HELP or TYPE alone: {helped ^ set(kinds)}")
    print(f"{len(seen)} samples of {len(kinds)} metrics")


main()
