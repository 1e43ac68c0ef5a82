#!/usr/bin/env python3
"""Numbers and names that two releases must agree on: every row that an earlier one had in its tables is in the later one's, as it was.

    rows.py EARLIER_TREE LATER_TREE      prints each row that is not, then "N passed, M failed", tables
    rows.py --try TREE                   changes rows of a copy of its tables, one at a time: is each change found?
"""
import os
import re
import shutil
import sys
import tempfile

# Of each table: its place, the kinds of rows, and how many fields stand first and mean the same for ever. Of messages the list that
# their description begins with may grow behind; of composites operands and attributes are the wire's, and may not.
TABLES = (
    ("protocol/ops.def", "UNARY|BINARY|TERNARY|REDUCE|SCAN|STRUCT|COMPOSITE", 2),
    ("protocol/dtypes.def", "DTYPE", 6),
    ("protocol/errors.def", "ERROR", 2),
    ("protocol/features.def", "FEATURE", 2),
    ("protocol/attributes.def", "ATTRIBUTE", 3),
    ("protocol/messages.def", "REQUEST|DOOR", 2),
    ("daemon/base/settings.def", "SETTING", 2),
    ("protocol/patterns.def", "PATTERN", 2),
)


def fields(line):
    """Of "KIND(a, f(b, c), "d, e")": its arguments."""
    parts, depth, quoted, text = [], 0, False, ""
    for c in line[line.index("(") + 1:]:
        if c == '"':
            quoted = not quoted
        elif not quoted:
            if c == ")" and not depth:
                break
            depth += (c == "(") - (c == ")")
            if c == "," and not depth:
                parts.append(text.strip())
                text = ""
                continue
        text += c
    return parts + [text.strip()]


def form(kind, row):
    """What may grow, and what may not change besides the first fields."""
    if kind in ("REQUEST", "DOOR"):
        lists = re.match(r'"\[([^\]]*)\]', row[2])
        return [f.strip() for f in lists.group(1).split(",")] if lists else []
    return []


def read(tree, path, kinds, count):
    """{key: (first fields, list)}"""
    rows = {}
    place = os.path.join(tree, path)
    if not os.path.exists(place):
        return rows
    with open(place, encoding="utf-8") as file:
        for kind, line in re.findall(rf"^({kinds})(\(.*)$", file.read(), re.M):
            row = fields(line)
            first = row[:count]
            if kind == "COMPOSITE":
                first += row[5:7] + [f for f in row if f.startswith(("HAS(", '"'))][:1] + re.findall(r"HAS\((\w+)\)", line)
            elif path.endswith("ops.def"):
                first += [kind]
            key = (kind if kind in ("REQUEST", "DOOR") else "", *(row[:2] if kind == "SETTING" else row[:1]))
            rows[key] = first, form(kind, row)
    return rows


def compare(earlier, later):
    """What is not as it was, as sentences; and in how many tables."""
    found, tables = [], 0
    for path, kinds, count in TABLES:
        before, now = read(earlier, path, kinds, count), read(later, path, kinds, count)
        wrong = []
        for key, (first, grows) in before.items():
            name = f"{path}: {' '.join(k for k in key if k)}"
            if key not in now:
                wrong.append(f"{name} ({', '.join(first)}) is gone")
            elif now[key][0] != first:
                wrong.append(f"{name} was {first}, and is {now[key][0]}")
            elif now[key][1][:len(grows)] != grows:
                wrong.append(f"{name} had the values {grows}, and has {now[key][1]}: additions come behind")
        tables += bool(wrong)
        found += wrong
    return found, tables


def attempt(tree):
    """Is every change found? Each table is changed in a copy: a row goes, a number, a name."""
    passed = failed = 0
    for path, kinds, count in TABLES:
        with open(os.path.join(tree, path), encoding="utf-8") as file:
            text = file.read()
        row = re.search(rf"^({kinds})\(.*$", text, re.M).group(0)
        names = fields(row)[1]
        changes = {"a row that goes": text.replace(row + "\n", "", 1), "a row that is named otherwise": text.replace(row, re.sub(rf"\b{names}\b", names + "x", row, count=1), 1)}
        if path.endswith("messages.def"):
            changes["a value between"] = text.replace("[seq, flags, ops", "[seq, more, flags, ops", 1)
        if path.endswith("ops.def"):
            changes["an attribute that goes"] = re.sub(r"(COMPOSITE\(.*)HAS\((\w+)\)", r"\1HAS(eps)", text, count=1)
        for what, changed in changes.items():
            with tempfile.TemporaryDirectory() as copy:
                for other, _, _ in TABLES:
                    os.makedirs(os.path.join(copy, os.path.dirname(other)), exist_ok=True)
                    shutil.copy(os.path.join(tree, other), os.path.join(copy, other))
                with open(os.path.join(copy, path), "w", encoding="utf-8") as file:
                    file.write(changed)
                seen = changed != text and bool(compare(tree, copy)[0])
            passed += seen
            failed += not seen
            if not seen:
                print(f"{path}: {what} is not found")
    return passed, failed


if __name__ == "__main__":
    if sys.argv[1] == "--try":
        good, bad = attempt(sys.argv[2])
    else:
        wrong, bad = compare(sys.argv[1], sys.argv[2])
        good = len(TABLES) - bad
        print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{good} passed, {bad} failed")
    sys.exit(bad > 0)
