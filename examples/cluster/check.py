"""What the schemas of Compose and Kubernetes cannot know: check.py DIRECTORY PROGRAM

Every name must lead to something: secrets, ConfigMaps, services, mounted files. PROGRAM must know every option and its
configuration. Caddy must pass streams on at once, leave out a process that stops, and hide the metrics.
"""

import http.client
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
DIRECTORY, PROGRAM = Path(sys.argv[1]).resolve(), str(Path(sys.argv[2]).resolve())
# How long threads may take to come to rest when a process stops, in seconds.
DRAIN = 20


def fail(text):
    sys.exit(f"examples/cluster: {text}")


def expect(is_so, text):
    if not is_so:
        fail(text)


def parses(arguments, where):
    """PROGRAM knows these arguments. It reads them in their order, and the last one asks for help."""
    ran = subprocess.run([PROGRAM, *arguments, "--help"], capture_output=True, text=True, timeout=60)
    expect(ran.returncode == 0, f"{where}: {' '.join(arguments)}: {ran.stderr}")


def configured(text, where):
    """PROGRAM accepts this prowess.toml, without a warning."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / ".config" / "prowess"
        path.mkdir(parents=True)
        (path / "prowess.toml").write_text(text)
        ran = subprocess.run([PROGRAM, "config", "show"], capture_output=True, text=True, timeout=60, cwd=home,
                             env={"HOME": home, "PATH": os.environ["PATH"]})
        expect(ran.returncode == 0 and not ran.stderr, f"{where}: {ran.stderr or ran.stdout}")
        expect("bwrap-noproc" in ran.stdout, f"{where}: the level of the sandbox is not in the configuration")


def check_compose():
    file = yaml.safe_load((HERE / "compose.yaml").read_text())
    services = file["services"]
    example = dict(line.split("=", 1) for line in (HERE / "env.example").read_text().splitlines() if "=" in line)
    for name in re.findall(r"\$\{(\w+)", (HERE / "compose.yaml").read_text()):
        expect(name in example, f"compose.yaml uses {name}, which is not in env.example")
    counts = {"web": 0, "worker": 0}
    for name, service in services.items():
        for other in service.get("depends_on", {}):
            expect(other in services, f"{name} depends on {other}, which does not exist")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            is_named = source in file["volumes"]
            expect(is_named or (HERE / source).exists(), f"{name}: there is no {source}")
        if service["image"] == "prowess":
            command = [re.sub(r"\$\{.*", "http://example.com", word) if word.startswith("${PROWESS_URL") else re.sub(r"\$\{.*", "offline", word)
                       for word in service["command"]]
            parses(command, f"compose.yaml, {name}")
            if "--role" in command:
                counts[command[command.index("--role") + 1]] += service.get("deploy", {}).get("replicas", 1)
                expect(int(service["stop_grace_period"].rstrip("s")) > DRAIN, f"{name} has too little time to stop")
    expect(counts == {"web": 2, "worker": 3}, f"compose.yaml has {counts}")
    keys = json.loads((HERE / "s3.json").read_text())["identities"][0]["credentials"][0]
    expect(keys["secretKey"] == example["S3_SECRET"], "s3.json and env.example have different secrets")
    configured((HERE / "prowess.toml").read_text(), "prowess.toml")
    return len(services)


def check_kubernetes():
    objects = [(path.name, one) for path in sorted((HERE / "kubernetes").glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]
    by_name = {(one["kind"], one["metadata"]["name"]): one for _, one in objects}
    pods = [(one["kind"], one["metadata"]["name"], one["spec"]["template"]) for _, one in objects if one["kind"] in ("Deployment", "Job")]
    for _, one in objects:
        is_outside = one["kind"] == "Namespace"
        expect(is_outside or one["metadata"].get("namespace") == "prowess", f"{one['metadata']['name']} is in no namespace")
    for kind, name, template in pods:
        spec = template["spec"]
        containers = spec["containers"] + spec.get("initContainers", [])
        for container in containers:
            for source in container.get("envFrom", []):
                for reference, target in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                    if reference in source:
                        expect((target, source[reference]["name"]) in by_name, f"{name}: there is no {target} {source[reference]['name']}")
            for variable in container.get("env", []):
                if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                    data = by_name[("Secret", reference["name"])]["stringData"]
                    expect(reference["key"] in data, f"{name}: the Secret has no {reference['key']}")
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            expect({mount["name"] for mount in container.get("volumeMounts", [])} <= volumes, f"{name}: a volume is missing")
            if "prowess" in container["image"]:
                parses(container["args"], name)
        if kind == "Deployment":
            expect(spec["terminationGracePeriodSeconds"] > DRAIN + 5, f"{name} has too little time to stop")
            for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz"), ("startupProbe", "/healthz")):
                expect(containers[0][probe]["httpGet"]["path"] == path, f"{name}: {probe} asks for something else than {path}")
    selected = [template["metadata"]["labels"].items() for _, _, template in pods]
    for _, one in objects:
        selector = one["spec"].get("selector") if one["kind"] in ("Service", "PodDisruptionBudget") else None
        if selector:
            labels = selector.get("matchLabels", selector).items()
            expect(any(labels <= of_pod for of_pod in selected), f"{one['metadata']['name']} selects no pod")
    scaled = by_name[("HorizontalPodAutoscaler", "prowess-worker")]["spec"]["scaleTargetRef"]
    expect((scaled["kind"], scaled["name"]) in by_name, "the autoscaler has no target")
    for rule in by_name[("Ingress", "prowess")]["spec"]["rules"]:
        for path in rule["http"]["paths"]:
            expect(("Service", path["backend"]["service"]["name"]) in by_name, "the Ingress names a Service that does not exist")
    configured(by_name[("ConfigMap", "prowess-toml")]["data"]["prowess.toml"], "kubernetes/1-config.yaml")
    return len(objects)


class Web(http.server.BaseHTTPRequestHandler):
    """Stands for a web process: it says who it is, and streams two events with a pause that ends when the client has the first."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        if self.path == "/readyz":
            self.answer(200 if server.is_ready else 503, b"ready\n")
        elif self.path == "/events":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(b"data: one\n\n")
            self.wfile.flush()
            if server.has_first.wait(30):
                self.wfile.write(b"data: two\n\n")
        else:
            self.answer(200, server.name.encode())

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def web(name):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.name, server.is_ready, server.has_first, server.daemon_threads = name, True, threading.Event(), True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"host": "localhost"})
    return connection.getresponse()


def until(is_so, text):
    for _ in range(300):
        try:
            if is_so():
                return
        except OSError:
            pass
        time.sleep(0.1)
    fail(text)


def check_proxy():
    """The Caddyfile as it is, except for the addresses of the web processes."""
    webs = [web("web-1"), web("web-2")]
    text = (HERE / "Caddyfile").read_text()
    for server in webs:
        expect(f"{server.name}:8930" in text, f"the Caddyfile does not name {server.name}")
        text = text.replace(f"{server.name}:8930", f"127.0.0.1:{server.server_port}")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "Caddyfile").write_text("{\n admin off\n}\n" + text)
        environment = {"HOME": home, "PATH": os.environ["PATH"], "SITE": f"http://localhost:{port}"}
        with open(DIRECTORY / "caddy.log", "wb") as log:
            proxy = subprocess.Popen(["caddy", "run", "--config", f"{home}/Caddyfile", "--adapter", "caddyfile"], env=environment, stdout=log, stderr=log)
        try:
            until(lambda: get(port, "/").status == 200, f"Caddy did not answer; see {DIRECTORY}/caddy.log")
            until(lambda: {get(port, "/").read() for _ in range(8)} == {b"web-1", b"web-2"}, "Caddy does not use both web processes")
            expect(get(port, "/metrics").status == 404, "Caddy publishes the metrics")
            stream = get(port, "/events")
            first = stream.readline()
            expect(first == b"data: one\n", f"the stream began with {first}")
            for server in webs:
                server.has_first.set()
            expect(stream.read().endswith(b"data: two\n\n"), "the stream did not go on")
            webs[0].is_ready = False
            until(lambda: {get(port, "/").read() for _ in range(20)} == {b"web-2"}, "Caddy still uses a process that stops")
            webs[1].is_ready, webs[0].is_ready = False, True
            until(lambda: {get(port, "/").read() for _ in range(20)} == {b"web-1"}, "Caddy does not use a process that is ready again")
        finally:
            proxy.kill()
            proxy.wait(30)
            for server in webs:
                server.shutdown()


services, objects = check_compose(), check_kubernetes()
check_proxy()
print(f"examples/cluster: {services} services, {objects} objects, and the proxy with two web processes: all right")
