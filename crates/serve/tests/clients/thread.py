"""Makes a thread with a conversation, a loaded skill, a file and a question, and prints its id: thread.py URL TOKEN"""

import json
import sys
import time
import urllib.request

url, token = sys.argv[1:]


def ask(method, path, body=None):
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(f"{url}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


thread = ask("POST", "/threads", {})["id"]
ask("PUT", f"/threads/{thread}/files/content?path=/project/plan.md", b"The plan.")
for text in ("Please load it", "Look up the tide"):
    ask("POST", f"/threads/{thread}/turns", {"text": text})
    begun = time.monotonic()
    while True:
        whole = ask("GET", f"/threads/{thread}")
        if whole["status"] in ("idle", "waiting") and text in json.dumps(whole["messages"]):
            break
        assert time.monotonic() - begun < 30, whole
        time.sleep(0.1)
assert whole["questions"] and whole["skills"], whole
print(thread)
