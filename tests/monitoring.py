#!/usr/bin/env python3
"""Do alerts and dashboards ask only for metrics that there are? Arguments: the metrics of a daemon, then files that name some.

Those that only some daemons tell are named here.
"""
import json
import re
import sys

ELSEWHERE = {"fusiond_certificate_expiry_timestamp_seconds", "fusiond_user_device_seconds_total"}


def main():
    told = set(re.findall(r"^# TYPE (\S+)", open(sys.argv[1]).read(), re.M)) | ELSEWHERE
    asked = set()
    for path in sys.argv[2:]:
        text = open(path).read()
        if path.endswith(".json"):
            text = "\n".join(t["expr"] for panel in json.loads(text)["panels"] for t in panel["targets"])
        asked |= {re.sub("_bucket$", "", name) for name in re.findall(r"\bfusiond_[a-z_]+", text)}
    unknown = sorted(asked - told)
    if unknown or not asked:
        sys.exit(f"nobody tells {', '.join(unknown)}")
    print(f"{len(asked)} names")


main()
