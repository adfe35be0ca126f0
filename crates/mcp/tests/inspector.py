"""The command lines of the MCP Inspector as clients: inspector.py NODE INSPECTOR PROGRAM REVISION

`inspector --cli` connects anew for each request: it lists, calls, reads, gets a prompt, and verifies every file of
every skill through the Skills extension. `mcpdo` keeps a connection: it is asked for permission, answers, runs a command,
reads its output, and finds a skill that came meanwhile. Neither shows what a server tells unasked of its lists.
"""

import base64
import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

NODE, INSPECTOR, PROGRAM, REVISION = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
ONCE = [NODE, str(INSPECTOR / "clients/launcher/build/index.js"), "--cli", "--format", "json"]
HELD = [NODE, str(INSPECTOR / "clients/mcpdo/build/mcp-bin.js"), "--format", "json"]
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "skills"
ERA = {"2025-11-25": "legacy", "2026-07-28": "modern"}[REVISION]
PATIENCE = 30  # seconds
TOOL_ERROR = 5  # the exit code for an answer with `isError`

RULES = """
[permission.skill]
"*" = "allow"
"""

SKILL = """---
name: {name}
description: Looks after {name}. Use in tests.
metadata:
  version: "1.10"
  count: 3
{fields}---
{body}
"""


def skill(root: pathlib.Path, name: str, body: str = "Do it.", fields: str = "") -> pathlib.Path:
    directory = root / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "SKILL.md").write_text(SKILL.format(name=name, body=body, fields=fields))
    return directory


def runs(process: int) -> bool:
    try:
        return bool(pathlib.Path(f"/proc/{process}/cmdline").read_bytes())
    except OSError:
        return False


class World:
    """A home with skills and rules, in which clients and servers run."""

    def __init__(self, scratch: pathlib.Path) -> None:
        scratch.chmod(0o755)
        self.home, self.root = scratch, scratch / "skills"
        plain = skill(self.root, "plain", "Read references/notes.md.")
        (plain / "references").mkdir()
        (plain / "references" / "a note.md").write_bytes("# Größe\r\n".encode())
        (plain / "data.bin").write_bytes(bytes(range(256)))
        skill(self.root, "asking", "Wave at $ARGUMENTS.", "argument-hint: '[who]'\n")
        config = scratch / ".config" / "prowess"
        config.mkdir(parents=True)
        (config / "prowess.toml").write_text(RULES)
        self.environment = {
            "HOME": str(scratch),
            "PATH": os.environ["PATH"],
            "MCP_INSPECTOR_SECRET_STORE": "memory",
        }
        roots = ["--only", "--root", str(EXAMPLES), "--root", str(self.root)]
        self.server = [PROGRAM, "mcp", *roots, "--run", "--workspace", str(scratch / "kept")]

    def ran(self, command: list[str], code: int = 0) -> str:
        """What a command puts out that ends with this code."""
        done = subprocess.run(
            command, env=self.environment, cwd=self.home, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == code, f"{command[4:]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def let_go(self) -> None:
        """Ends the process that keeps connections."""
        daemon = json.loads(self.ran([*HELD, "daemon", "status"])).get("pid")
        self.ran([*HELD, "daemon", "stop"])
        deadline = time.monotonic() + PATIENCE
        while daemon and runs(daemon):
            assert time.monotonic() < deadline, "mcpdo's daemon does not end"
            time.sleep(0.05)

    def files(self) -> Iterator[pathlib.Path]:
        """The files that are served."""
        for root in (EXAMPLES, self.root):
            for path in root.rglob("*"):
                # Beside the skills there may be a file about them.
                if path.is_file() and path.parent != root and "__pycache__" not in path.parts:
                    yield path


class Once:
    """A client that connects for each request."""

    def __init__(self, world: World, target: list[str]) -> None:
        self.world, self.target = world, target

    def lines(self, method: str, *options: str, code: int = 0) -> list[dict[str, Any]]:
        command = [*ONCE, "--protocol-era", ERA, "--method", method, *options, *self.target]
        return [json.loads(line) for line in self.world.ran(command, code).splitlines()]

    def __call__(self, method: str, *options: str, code: int = 0) -> dict[str, Any]:
        [line] = self.lines(method, *options, code=code)
        return line["result"]


class Held:
    """A connection that is kept."""

    def __init__(self, world: World, target: list[str], name: str, *options: str) -> None:
        self.world, self.name = world, name
        connect = [*HELD, "--connection", name, "connect", "--era", ERA, *options, *target]
        connected = json.loads(world.ran(connect))
        assert connected["protocolEra"] == ERA, connected

    def __call__(self, *words: str, code: int = 0) -> dict[str, Any]:
        return json.loads(self.world.ran([*HELD, "--connection", self.name, *words], code))

    def call(self, tool: str, arguments: dict[str, Any], code: int = 0) -> dict[str, Any]:
        return self("tools/call", tool, json.dumps(arguments), code=code)


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def surface(client: Once) -> None:
    server = client("initialize")
    assert server["protocolVersion"] == REVISION, server
    assert server["serverInfo"]["name"] == "prowess" and "**plain**" in server["instructions"], server
    tools = {tool["name"] for tool in client("tools/list", "--strict")["tools"]}
    assert {"load_skill", "skill_run"} <= tools, tools
    loaded = client("tools/call", "--tool-name", "load_skill", "--tool-arg", "skill_name=plain")
    assert "Read references/notes.md." in text(loaded), loaded
    missing = client("tools/call", "--tool-name", "load_skill", "--tool-arg", "skill_name=none", code=TOOL_ERROR)
    assert missing["isError"] and "not found" in text(missing), missing
    prompts = {prompt["name"]: prompt for prompt in client("prompts/list")["prompts"]}
    assert prompts["asking"]["arguments"][0]["description"] == "[who]", prompts
    prompt = client("prompts/get", "--prompt-name", "asking", "--prompt-args", "arguments=the world")
    assert "Wave at the world." in prompt["messages"][0]["content"]["text"], prompt
    listed = {resource["name"]: resource for resource in client("resources/list")["resources"]}
    assert listed["plain"]["mimeType"] == "text/markdown", listed
    [data] = client("resources/read", "--uri", "skill://plain/data.bin")["contents"]
    assert base64.b64decode(data["blob"]) == bytes(range(256)), data
    [note] = client("resources/read", "--uri", "skill://plain/references/a%20note.md")["contents"]
    assert note["text"] == "# Größe\r\n", note


def verified(client: Once) -> int:
    """How many files of skills the Inspector itself read and found to be what the extension says."""
    reports = client.lines("skills/list", "--verify", "--require-digests")
    for report in reports:
        assert report["outcome"] == "verified" and not report["conformance"] and not report["frontmatter"], report
    files = sum(len(report["files"]) for report in reports)
    assert files == len(list(client.world.files())), reports
    children = client("resources/directory/read", "--uri", "skill://plain")["resources"]
    kinds = {child["name"]: child.get("mimeType") for child in children}
    assert kinds["references"] == "inode/directory", kinds
    return files


def asked(client: Held) -> None:
    run = {"skill": "plain", "command": "echo hello > out/said.txt; cat out/said.txt", "output_files": ["out/*.txt"]}
    question = client.call("skill_run", run)["elicitationPending"]
    assert "echo hello" in question["message"], question
    assert question["origin"] == {"legacy": "server-request", "modern": "input-required"}[ERA], question
    no = client("elicitation/respond", question["elicitationId"], "decision:=no", "reason:=not today", code=TOOL_ERROR)
    assert no["isError"] and "not today" in text(no), no
    question = client.call("skill_run", run)["elicitationPending"]
    ran = client("elicitation/respond", question["elicitationId"], "decision:=once")
    assert ran["structuredContent"]["stdout"] == "hello\n" and ran["structuredContent"]["exit_code"] == 0, ran
    link = next(block for block in ran["content"] if block["type"] == "resource_link")
    [said] = client("resources/read", link["uri"])["contents"]
    assert said["text"] == "hello\n", said


def refused(client: Held) -> None:
    """Where nobody can be asked, the answer is how to allow it."""
    no = client.call("skill_run", {"skill": "plain", "command": "true"}, code=TOOL_ERROR)
    assert no["isError"] and "allow" in text(no) and "plain true" in text(no), no


def seen(client: Held) -> None:
    """A skill that comes while a client is connected is among the prompts soon."""
    assert "newer" not in {prompt["name"] for prompt in client("prompts/list")["prompts"]}
    skill(client.world.root, "newer")
    deadline = time.monotonic() + PATIENCE
    while "newer" not in {prompt["name"] for prompt in client("prompts/list")["prompts"]}:
        assert time.monotonic() < deadline, "the new skill is not there"


def converse(world: World, target: list[str]) -> int:
    surface(Once(world, target))
    files = verified(Once(world, target))
    try:
        asked(Held(world, target, "asking"))
        refused(Held(world, target, "mute", "--elicit", "off"))
        seen(Held(world, target, "watching"))
    finally:
        world.let_go()
    return files


@contextlib.contextmanager
def over_http(world: World) -> Iterator[list[str]]:
    """How clients find a server that runs for as long as this is entered."""
    token = secrets.token_hex(32)
    environment = world.environment | {"PROWESS_MCP_TOKEN": token}
    command = [*world.server, "--http", "127.0.0.1:0"]
    server = subprocess.Popen(command, env=environment, cwd=world.home, stderr=subprocess.PIPE, text=True)
    too_late = threading.Timer(PATIENCE, server.kill)
    too_late.start()
    try:
        said = []
        while not said or not said[-1].startswith("serving at "):
            said.append(server.stderr.readline())
            assert said[-1], "the server did not start:\n" + "".join(said)
        too_late.cancel()
        address = said[-1].split()[-1]
        yield ["--transport", "http", "--server-url", address, "--header", f"Authorization: Bearer {token}"]
        assert server.poll() is None, "the server ended"
    finally:
        too_late.cancel()
        server.terminate()
        code = server.wait(PATIENCE)
    assert code == 128 + signal.SIGTERM, f"the server ended with {code}"


for way in ("standard input and output", "HTTP"):
    with tempfile.TemporaryDirectory() as scratch:
        world = World(pathlib.Path(scratch))
        if way == "HTTP":
            with over_http(world) as target:
                files = converse(world, target)
        else:
            files = converse(world, ["--", *world.server])
    print(f"the Inspector, {REVISION} over {way}: {files} files verified, asked and answered")
