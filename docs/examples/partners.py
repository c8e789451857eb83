#!/usr/bin/env python3
"""An external policy: threads that share most go to one node, pages to their main user. See docs/external-policies.md."""
import json
import sys


def tell(line):
    print(json.dumps(line), flush=True)


greeting = json.loads(sys.stdin.readline())
if greeting["schema"] != 1:
    sys.exit("this policy speaks schema 1")
tell({"schema": 1, "name": "partners"})

for line in sys.stdin:
    window = json.loads(line)
    room = {node["node"]: node["threads"] for node in window["room"]}
    allowed = {thread["tid"]: thread["allowed"] for thread in window["threads"]}
    places = {}

    def place(tid, wanted):
        for node in wanted + sorted(room, key=lambda node: -room[node]):
            if tid not in places and room[node] > 0 and node in allowed[tid]:
                places[tid] = node
                room[node] -= 1

    for one, other, _amount in window["shares"]:
        place(one, [places[other]] if other in places else [])
        place(other, [places[one]] if one in places else [])
    pages = []
    for page in window["pages"]:
        users = [user for user in page["users"] if user[0] in places]
        if users:
            pages.append([page["page"], places[max(users, key=lambda user: user[1])[0]]])
    tell({"window": window["window"], "threads": list(places.items()), "pages": pages})
