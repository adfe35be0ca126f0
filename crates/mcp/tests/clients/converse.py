"""One whole conversation in a client that other people wrote: converse.py CLIENT BINARY PROGRAM DIRECTORY [ADDRESS]

The client starts our server. With ADDRESS, the server starts first and serves HTTP there. The client gets the configuration
that `--print-config` prints, and a scripted model. The model lists the resources, loads a skill, runs a command, reads its
output, is refused two other commands, and reports. The requests of the client to the model show whether each step worked.
All files are below DIRECTORY, which is created again.
"""

import contextlib
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from model import Asked, Call, Model, Step

NAME, BINARY, PROGRAM, DIRECTORY = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
ADDRESS = sys.argv[5] if len(sys.argv) > 5 else None
EXAMPLES = pathlib.Path(__file__).resolve().parents[4] / "examples" / "skills"
PATIENCE = 120  # seconds
KEY = "of-no-value"
QUESTION = "What is in the table of orders?"
ANSWER = "The table holds orders, and nothing was removed."
REPORT = "python3 scripts/csv_profile.py assets/orders.csv -o out/report.md"
DENIED = "rm -r work"
ASKED = "ls assets"

RULES = """
[permission.run]
"csv-report python3 scripts/csv_profile.py *" = "allow"

[agent.mcp.permission.run]
"csv-report rm *" = "deny"
"""


@dataclass
class Client:
    """How a client is set up and asked."""

    prefix: str
    """What it puts before the names of our tools."""
    set_up: Callable[[pathlib.Path, str, str], None]
    """Writes its files into a home: what we print, and where the model is."""
    arguments: list[str]
    """How it is asked a question."""
    environment: dict[str, str]
    """What keeps it from calling home."""
    unanswered: str
    """What comes of a question that nobody is there to answer."""


def codex(home: pathlib.Path, printed: str, model: str) -> None:
    tomllib.loads(printed)
    directory = home / ".codex"
    directory.mkdir()
    provider = f"""
model = "fake"
model_provider = "fake"
check_for_update_on_startup = false
web_search = "disabled"

[analytics]
enabled = false

[feedback]
enabled = false

[model_providers.fake]
name = "A model on loopback"
base_url = "{model}"
env_key = "FAKE_KEY"
wire_api = "responses"

"""
    # The client can ask nobody whether a command may run, so our rules decide.
    approval = """
[mcp_servers.prowess.tools.skill_run]
approval_mode = "approve"
"""
    (directory / "config.toml").write_text(provider + printed + approval)


def opencode(home: pathlib.Path, printed: str, model: str) -> None:
    options = {"baseURL": model, "apiKey": KEY}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "A model on loopback", "options": options}
    provider["models"] = {"fake": {"name": "Fake"}}
    settings = {"model": "fake/fake", "small_model": "fake/fake", "autoupdate": False, "share": "disabled"}
    directory = home / ".config" / "opencode"
    directory.mkdir(parents=True)
    (directory / "opencode.json").write_text(json.dumps(json.loads(printed) | settings | {"provider": {"fake": provider}}))


CLIENTS = {
    "codex": Client(
        "mcp__prowess.",
        codex,
        ["exec", "--skip-git-repo-check", "--json", QUESTION],
        {"FAKE_KEY": KEY},
        # It accepts questions, and declines them by itself.
        "The user said no",
    ),
    "opencode": Client(
        "prowess_",
        opencode,
        ["run", "--format", "json", QUESTION],
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        },
        # It accepts no questions, so the answer says what would allow the command.
        f'To allow it, add at the end of [permission.run]: "csv-report {ASKED}" = "allow"',
    ),
}


def script(client: Client) -> Callable[[Asked], Step]:
    """The model's part: one call after each answer."""

    def run(command: str, *outputs: str) -> Call:
        arguments = {"skill": "csv-report", "command": command, "output_files": list(outputs)}
        return Call(client.prefix + "skill_run", arguments)

    def read(asked: Asked) -> Call:
        # It knows of the output what the client told it.
        [address] = set(re.findall(r"run://[\w/.]+", asked.results[-1]))
        return Call("read_mcp_resource", {"server": "prowess", "uri": address})

    steps: list[Callable[[Asked], Step]] = [
        lambda _: Call("list_mcp_resources", {"server": "prowess"}),
        lambda _: Call(client.prefix + "load_skill", {"skill_name": "csv-report"}),
        lambda _: run(REPORT, "out/*.md"),
        read,
        lambda _: run(DENIED),
        lambda _: run(ASKED),
        lambda _: ANSWER,
    ]
    return lambda asked: steps[len(asked.results)](asked)


def checked(client: Client, asked: list[Asked]) -> None:
    """Checks what the client sent to the model."""
    first, last = asked[0], asked[-1]
    for tool in ("load_skill", "skill_list_docs", "unload_skill", "skill_run"):
        assert client.prefix + tool in first.offered, first.offered
    assert "**csv-report**: Profile a CSV" in first.text, "the overview of the skills is missing:\n" + first.text
    assert [len(one.results) for one in asked] == list(range(7)), "the conversation took another course"
    listed, loaded, ran, read, denied, unanswered = last.results
    assert "skill://csv-report/SKILL.md" in listed and "skill://python-math/SKILL.md" in listed, listed
    body = (EXAMPLES / "csv-report" / "SKILL.md").read_text().split("---\n", 2)[2].strip()
    assert body in loaded, loaded
    report = json.loads(ran[ran.index("{") :])
    assert report["exit_code"] == 0 and report["stdout"].startswith("orders.csv: 25 rows"), report
    assert report["sandbox"]["level"].startswith("bwrap"), report
    assert "# Profile of `orders.csv`" in read and "do not have 9 fields: line 24 has 8" in read, read
    assert f"Permission denied: run 'csv-report {DENIED}'" in denied, denied
    assert client.unanswered in unanswered.replace('\\"', '"'), unanswered


@contextlib.contextmanager
def serving(options: list[str], environment: dict[str, str]) -> Iterator[None]:
    """Runs the server inside this context, unless the client starts it."""
    if ADDRESS is None:
        yield
        return
    server = subprocess.Popen([PROGRAM, "mcp", *options], env=environment, stderr=subprocess.PIPE, text=True)
    too_late = threading.Timer(PATIENCE, server.kill)
    too_late.start()
    try:
        said = []
        while not said or not said[-1].startswith("serving at "):
            said.append(server.stderr.readline())
            assert said[-1], "the server did not start:\n" + "".join(said)
        too_late.cancel()
        yield
        assert server.poll() is None, "the server ended"
    finally:
        too_late.cancel()
        server.terminate()
        code = server.wait(PATIENCE)
    assert code == 128 + signal.SIGTERM, f"the server ended with {code}"


def main() -> None:
    client = CLIENTS[NAME]
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    work = DIRECTORY / "work"
    work.mkdir(parents=True)
    rules = DIRECTORY / ".config" / "prowess" / "prowess.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text(RULES)
    options = ["--run", "--only", "--root", str(EXAMPLES), "--workspace", str(DIRECTORY / "kept")]
    environment = {"HOME": str(DIRECTORY), "PATH": os.environ["PATH"], **client.environment}
    if ADDRESS is not None:
        options += ["--http", ADDRESS]
        environment["PROWESS_MCP_TOKEN"] = secrets.token_hex(32)
    printed = subprocess.check_output([PROGRAM, "mcp", *options, "--print-config", NAME], text=True, timeout=PATIENCE)
    with Model(script(client)) as model, serving(options, environment):
        client.set_up(DIRECTORY, printed, model.address)
        done = subprocess.run(
            [BINARY, *client.arguments],
            env=environment,
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"it ended with {done.returncode}:\n{said}"
    assert not model.failures, f"{model.failures}\n{said}"
    checked(client, model.asked)
    assert ANSWER in done.stdout, said
    way = "standard input and output" if ADDRESS is None else "HTTP"
    print(f"{NAME} over {way}: listed, loaded, ran, read, was refused twice, and answered")


main()
