"""A client on the official Python SDK: sdk.py PROGRAM REVISION stdio|http

Lists, calls, reads everything through the Skills extension and verifies it as a client must, gets a prompt, is asked for
permission, runs a command and reads its output, and is told when a skill changes.
"""

import asyncio
import base64
import contextlib
import hashlib
import os
import pathlib
import sys
import tempfile
import time
from typing import Any

import mcp.client.session
import mcp_types as types
import yaml
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

PROGRAM, REVISION, TRANSPORT = sys.argv[1:4]
EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "skills"
NEWEST = "2026-07-28"
PATIENCE = 10  # seconds
TOLD_WITHIN = 2  # seconds
SECRET = "a-token-of-tests-0123456789"

RULES = """
[permission.skill]
"*" = "allow"
"guarded" = "ask"
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


class Params(types.RequestParams):
    """Whatever a method of an extension takes."""

    uri: str | None = None
    cursor: str | None = None


class Extension(types.Request[Params, str]):
    """A method that the SDK does not know."""


class Answer(types.Result):
    """Its answer, as it came."""

    model_config = {"extra": "allow"}


def skill(root: pathlib.Path, name: str, body: str = "Do it.", fields: str = "") -> pathlib.Path:
    directory = root / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "SKILL.md").write_text(SKILL.format(name=name, body=body, fields=fields))
    return directory


class Person:
    """Whoever answers questions, and hears what is told."""

    def __init__(self) -> None:
        self.answers: list[types.ElicitResult] = []
        self.asked: list[str] = []
        self.told: asyncio.Queue[str] = asyncio.Queue()

    async def answer(self, _context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return self.answers.pop(0)

    async def hear(self, message: Any) -> None:
        await self.told.put(getattr(message, "method", type(message).__name__))


async def extension(client: Client, method: str, **params: str) -> dict[str, Any]:
    request = Extension(method=method, params=Params(**params))
    answer = await client.session.send_request(request, Answer)
    return answer.model_dump(by_alias=True)


async def read(client: Client, uri: str) -> bytes:
    contents = (await client.read_resource(uri)).contents[0]
    if isinstance(contents, types.TextResourceContents):
        return contents.text.encode()
    return base64.b64decode(contents.blob)


async def refused(call: Any, code: int) -> None:
    try:
        await call
    except MCPError as error:
        assert error.error.code == code, error.error
    else:
        raise AssertionError("it was answered")


def text(result: types.CallToolResult) -> str:
    return result.content[0].text


async def surface(client: Client) -> None:
    assert client.protocol_version == REVISION, client.protocol_version
    if REVISION != NEWEST:
        assert client.server_info.name == "prowess"
        assert "**plain**" in client.instructions
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert {"load_skill", "skill_run"} <= tools, tools
    loaded = await client.call_tool("load_skill", {"skill_name": "plain"})
    assert not loaded.is_error and "Read references/notes.md." in text(loaded), loaded
    missing = await client.call_tool("load_skill", {"skill_name": "none"})
    assert missing.is_error and "not found" in text(missing), missing
    prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
    assert prompts["asking"].arguments[0].description == "[who]"
    prompt = await client.get_prompt("asking", {"arguments": "the world"})
    assert "Wave at the world." in prompt.messages[0].content.text, prompt
    listed = {resource.name: resource for resource in (await client.list_resources()).resources}
    assert listed["plain"].mime_type == "text/markdown", listed


async def verified(client: Client, roots: list[pathlib.Path]) -> int:
    """Reads every file of every skill, and verifies size, digest and frontmatter."""
    listed = await extension(client, "skills/list")
    assert listed["resultType"] == "complete" and "ttlMs" in listed and "cacheScope" in listed, listed
    files = 0
    for entry in listed["skills"]:
        name = entry["frontmatter"]["name"]
        if name == "guarded":
            continue
        got = await extension(client, "skills/get", uri=entry["uri"])
        assert got["skill"] == entry, got
        for file in entry["resources"]:
            content = await read(client, file["uri"])
            assert len(content) == file["size"], file
            assert "sha256:" + hashlib.sha256(content).hexdigest() == file["digest"], file
            if file["uri"] == entry["uri"]:
                frontmatter = yaml.safe_load(content.decode().split("---\n")[1])
                assert frontmatter == entry["frontmatter"], (frontmatter, entry["frontmatter"])
            files += 1
        directory = next(root / name for root in roots if (root / name).is_dir())
        on_disk = {path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        assert len(on_disk) == len(entry["resources"]), (on_disk, entry)
    children = await extension(client, "resources/directory/read", uri="skill://plain")
    kinds = {child["name"]: child.get("mimeType") for child in children["resources"]}
    assert kinds["references"] == "inode/directory", kinds
    await refused(extension(client, "skills/get", uri="skill://none/SKILL.md"), -32602)
    await refused(extension(client, "resources/directory/read", uri="skill://plain/SKILL.md"), -32602)
    await refused(read(client, "skill://plain/../guarded/SKILL.md"), -32602)
    return files


async def questions(client: Client, person: Person) -> None:
    reject = types.ElicitResult(action="accept", content={"decision": "no", "reason": "not today"})
    once = types.ElicitResult(action="accept", content={"decision": "once"})
    person.answers = [reject, once, types.ElicitResult(action="decline"), once]
    no = await client.call_tool("load_skill", {"skill_name": "guarded"})
    assert no.is_error and "not today" in text(no), no
    yes = await client.call_tool("load_skill", {"skill_name": "guarded"})
    assert not yes.is_error and "Keep it." in text(yes), yes
    run = {"skill": "plain", "command": "echo hello > out/said.txt; cat out/said.txt", "output_files": ["out/*.txt"]}
    no = await client.call_tool("skill_run", run)
    assert no.is_error, no
    ran = await client.call_tool("skill_run", run)
    assert ran.structured_content["stdout"] == "hello\n", ran
    link = next(block for block in ran.content if isinstance(block, types.ResourceLink))
    assert await read(client, link.uri) == b"hello\n"
    assert len(person.asked) == 4 and "echo hello" in person.asked[2], person.asked


async def told(client: Client, person: Person, root: pathlib.Path) -> float:
    """How long it took until a new skill was told of."""

    async def until_told() -> None:
        if REVISION == NEWEST:
            async for event in subscription:
                if type(event).__name__ == "ToolsListChanged":
                    return
        while await person.told.get() != "notifications/tools/list_changed":
            pass

    async def timed() -> float:
        begun = time.monotonic()
        skill(root, "newer")
        await asyncio.wait_for(until_told(), PATIENCE)
        return time.monotonic() - begun

    if REVISION == NEWEST:
        async with client.listen(tools_list_changed=True) as subscription:
            took = await timed()
    else:
        took = await timed()
    assert took < TOLD_WITHIN, f"it took {took:.2f} s"
    names = {prompt.name for prompt in (await client.list_prompts(cache_mode="refresh")).prompts}
    assert "newer" in names, names
    return took


@contextlib.asynccontextmanager
async def over_http(arguments: list[str], environment: dict[str, str], directory: str):
    """A server of its own, which ends in order when it is told to, and how clients reach it."""
    environment = {**environment, "PROWESS_MCP_TOKEN": SECRET}
    server = await asyncio.create_subprocess_exec(
        PROGRAM, *arguments, "--http", "127.0.0.1:0", env=environment, cwd=directory, stderr=asyncio.subprocess.PIPE
    )
    try:
        line = (await asyncio.wait_for(server.stderr.readline(), PATIENCE)).decode()
        url = line.removeprefix("serving at ").strip()
        assert url.startswith("http://127.0.0.1:"), line
        async with create_mcp_http_client(headers={"Authorization": f"Bearer {SECRET}"}) as http_client:
            yield streamable_http_client(url, http_client=http_client)
    finally:
        server.terminate()
        code = await asyncio.wait_for(server.wait(), PATIENCE)
    assert code == 143, code


async def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        scratch.chmod(0o755)
        root = scratch / "skills"
        plain = skill(root, "plain", "Read references/notes.md.")
        (plain / "references").mkdir()
        (plain / "references" / "a note.md").write_bytes("# Größe\r\n".encode())
        (plain / "data.bin").write_bytes(bytes(range(256)))
        skill(root, "asking", "Wave at $ARGUMENTS.", "argument-hint: '[who]'\n")
        skill(root, "guarded", "Keep it.")
        config = scratch / "config" / "prowess"
        config.mkdir(parents=True)
        (config / "prowess.toml").write_text(RULES)
        environment = {
            "HOME": str(scratch),
            "PATH": os.environ["PATH"],
            "XDG_CONFIG_HOME": str(scratch / "config"),
            "XDG_STATE_HOME": str(scratch / "state"),
        }
        arguments = ["mcp", "--only", "--root", str(EXAMPLES), "--root", str(root), "--run", "--workspace", str(scratch / "kept")]
        mode = REVISION
        if REVISION != NEWEST:
            mode = "legacy"
            mcp.client.session.LATEST_HANDSHAKE_VERSION = REVISION
        person = Person()
        async with contextlib.AsyncExitStack() as stack:
            if TRANSPORT == "http":
                server = await stack.enter_async_context(over_http(arguments, environment, str(scratch)))
            else:
                server = StdioServerParameters(command=PROGRAM, args=arguments, env=environment, cwd=str(scratch))
            client = await stack.enter_async_context(
                Client(
                    server,
                    mode=mode,
                    elicitation_callback=person.answer,
                    message_handler=person.hear,
                    read_timeout_seconds=PATIENCE,
                )
            )
            await surface(client)
            files = await verified(client, [root, EXAMPLES])
            await questions(client, person)
            took = await told(client, person, root)
        print(f"{REVISION} over {TRANSPORT}: {files} files verified, told of a change after {took:.2f} s")


asyncio.run(main())
