"""What must hold when a load is over. Each check prints one line."""

import asyncio

from cluster.client import Failed, digest


class Checks:
    """The checks, and whether one failed."""

    def __init__(self):
        self.failed = []

    def note(self, name, problems, summary):
        problems = list(problems)
        print(f"{'ok  ' if not problems else 'FAIL'} {name}: {summary}", flush=True)
        for problem in problems[:5]:
            print(f"     {problem}")
        if len(problems) > 5:
            print(f"     and {len(problems) - 5} more")
        if problems:
            self.failed.append(name)

    def at_least(self, name, value, least):
        """The load had what it is about: without that, the other checks say little."""
        self.note(name, [] if value >= least else [f"{value}, but at least {least} are needed"], str(value))


def keys_of(kind, key):
    """The keys that a turn of this kind hands to the witness."""
    if kind == "many":
        return [f"{key}-{number}" for number in range(3)]
    return {"charge": [key], "ask": [key], "task": [f"{key}-sub"]}.get(kind, [])


async def read_logs(conversations):
    """The logs of all conversations. A few at a time, because a user may not read many at once."""
    places = asyncio.Semaphore(8)

    async def read(conversation):
        async with places:
            return await conversation.log()

    return await asyncio.gather(*(read(conversation) for conversation in conversations))


async def check_threads(checks, conversations, watchers, broken):
    """Turns, messages and streams."""
    checks.note("conversations", broken, f"{len(conversations)} threads, {sum(len(one.posted) for one in conversations)} messages")
    try:
        logs = await read_logs(conversations)
    except Failed as failed:
        checks.note("logs", [str(failed)], "cannot be read")
        return
    open_turns, lost, asked = [], [], 0
    for conversation, log in zip(conversations, logs):
        conversation.events = log
        said, ended, turn = {}, {}, None
        for event in log:
            kind = event["type"]
            if kind in ("turn_started", "messages_added"):
                turn = (turn or []) if kind == "messages_added" else []
                for message in event["messages"]:
                    said[message["id"]] = said.get(message["id"], 0) + 1
                    turn.append(message["id"])
            elif kind == "turn_ended":
                ended.update((message, event["outcome"]) for message in turn or [])
                turn = None
            asked += kind == "asked"
        if turn is not None:
            open_turns.append(f"thread {conversation.thread}: a turn did not end")
        for message, (kind, _) in conversation.posted.items():
            if said.get(message, 0) != 1:
                lost.append(f"thread {conversation.thread}: message {message} is {said.get(message, 0)} times in the log")
            good = ("answered", "cancelled") if kind == "long" else ("answered",)
            if ended.get(message) not in good:
                open_turns.append(f"thread {conversation.thread}: the turn of {message} ({kind}) ended as {ended.get(message)}")
    checks.note("turns", open_turns, f"{sum(len(one.posted) for one in conversations)} ended, with {asked} questions")
    checks.note("messages", lost, "each is in its log once")
    await check_streams(checks, watchers, {one.thread: log for one, log in zip(conversations, logs)})


async def check_streams(checks, watchers, logs):
    """Every stream has every event of its log, once and in order, with the same content."""
    wrong = []
    for watcher in watchers:
        log = logs[watcher.thread]
        try:
            await watcher.wait(lambda: len(watcher.digests) >= len(log), 60, f"the stream has {len(watcher.digests)} of {len(log)} events")
        except Failed as failed:
            wrong.append(str(failed))
            continue
        different = [number for number, (had, event) in enumerate(zip(watcher.digests, log), 1) if had != digest(event)]
        if different or len(watcher.digests) != len(log):
            wrong.append(f"thread {watcher.thread}: the stream differs from the log at {different[:3]}, or is longer")
    events, resumed = sum(len(watcher.digests) for watcher in watchers), sum(watcher.resumed for watcher in watchers)
    checks.note("streams", wrong, f"{len(watchers)} streams with {events} events, resumed {resumed} times")


async def check_files(checks, conversations, model):
    """What the agent wrote for certain was read again by the agent, and every web process has it."""
    wrong, read = list(model.wrong), 0
    for conversation in conversations:
        for key in conversation.written[-1:]:
            if key not in model.written:
                continue
            path = f"/threads/{conversation.thread}/files/content?path=/project/notes/{key}.txt"
            for web in conversation.api.cluster.webs:
                status, text = await conversation.api.once(web.port, "GET", path, None)
                read += 1
                if (status, text) != (200, f"note {key}\n".encode()):
                    wrong.append(f"{web.name} has {status} {str(text)[:100]} as the file of {key}")
    checks.note("files", wrong, f"{len(model.written)} written, {model.reads} read by the agent in the same turn and in later ones, {read} read from web processes")


def check_witness(checks, conversations, witness, model):
    """Nothing that must not run twice ran twice, and nothing was left out."""
    counts = witness.counts()
    expected = {sub: (one, message) for one in conversations for message, (kind, key) in one.posted.items() for sub in keys_of(kind, key)}
    twice = [f"{key} was noted {count} times" for key, count in counts.items() if count > 1]
    checks.note("at most once", twice, f"{sum(counts.values())} calls that must not be made twice, of {len(counts)} keys")
    missing = []
    for key, (conversation, message) in expected.items():
        # A sub-agent's order has its own key, and another one that its parent has.
        orders = {key, conversation.posted[message][1]}
        if key not in counts and not orders & model.interrupted:
            missing.append(f"{key} was never noted, and its call was not interrupted: {answers_of(conversation, message)}")
    missing += [f"the agent was told that {key} was noted" for key in model.noted if key not in counts]
    missing += [f"{key} was noted, but nobody asked for it" for key in counts if key not in expected]
    checks.note("at least once", missing, f"{len(expected)} keys were wanted; {len(model.interrupted)} calls were interrupted, and not repeated")


def answers_of(conversation, message):
    """What happened in a turn, shortly."""
    short, is_in_turn = [], False
    for event in conversation.events:
        if event["type"] == "turn_started":
            is_in_turn = any(one["id"] == message for one in event["messages"])
        if is_in_turn:
            said = event.get("text") or event.get("outcome") or ""
            short.append(f"{event['type']} {said}".strip()[:120])
    return " · ".join(short)
