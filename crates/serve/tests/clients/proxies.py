"""Uses the server through the proxies of docs/serving.md: proxies.py DIRECTORY URL LOGIN-LINK… (one link for each proxy)

The configuration of the page is used as it is, except for its ports and its certificate.
"""

import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

directory, url, *links = sys.argv[1:]
directory = Path(directory)
HOST = "agent.example.com"
PAGE = (Path(__file__).parents[4] / "docs" / "serving.md").read_text()
# The server's limit for a file: a proxy must let it pass.
LARGE = 64 << 20


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def block(name):
    """The configuration that follows a line with the name of the proxy."""
    return re.search(rf"^{name}:\n\n```text\n(.*?)```", PAGE, re.S | re.M).group(1)


def caddy(port):
    text = block("Caddy").replace("127.0.0.1:8930", urlsplit(url).netloc)
    text = f"{{\n admin off\n auto_https disable_redirects\n skip_install_trust\n https_port {port}\n local_certs\n}}\n{text}"
    (directory / "Caddyfile").write_text(text)
    return ["caddy", "run", "--config", str(directory / "Caddyfile"), "--adapter", "caddyfile"]


def nginx(port):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}",
         "-keyout", directory / "privkey.pem", "-out", directory / "fullchain.pem"], check=True, capture_output=True)
    text = block("nginx").replace("127.0.0.1:8930", urlsplit(url).netloc).replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    paths = "".join(f"{kind}_temp_path {directory}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    # Its workers must reach the directory of this test.
    user = "user root;\n" if os.geteuid() == 0 else ""
    for kind in ("fullchain", "privkey"):
        text = text.replace(f"/etc/letsencrypt/live/{HOST}/{kind}.pem", f"{directory}/{kind}.pem")
    assert "/etc/" not in text, text
    text = (f"{user}daemon off;\npid {directory}/nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}"
            f"{text}}}\n")
    (directory / "nginx.conf").write_text(text)
    return ["nginx", "-e", "stderr", "-c", str(directory / "nginx.conf")]


class Proxied(http.client.HTTPSConnection):
    """A connection to the proxy, by the name that it has for others."""

    def __init__(self, port):
        context = ssl.create_default_context()
        # The certificates of this test.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        super().__init__(HOST, port, timeout=60, context=context)

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), 60)
        self.sock = self._context.wrap_socket(plain, server_hostname=HOST)


def send(port, method, path, body=None, **headers):
    connection = Proxied(port)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {"host": HOST, "origin": f"https://{HOST}", "x-prowess": "1", **headers})
    return connection.getresponse()


def expect(answer, status):
    body = answer.read()
    assert answer.status == status, (answer.status, body[:500])
    return body


def use(port, link):
    for _ in range(200):
        try:
            page = send(port, "GET", "/")
            if page.status == 200:
                break
            page.read()
        except OSError:
            pass
        time.sleep(0.1)
    else:
        raise AssertionError("the proxy never answered")
    assert b"<script" in page.read()
    expect(send(port, "GET", "/metrics"), 404)
    path = urlsplit(link).path
    # Opening the link uses nothing up, and another site cannot press its button.
    assert b"Sign in to prowess as" in expect(send(port, "GET", path), 200)
    expect(send(port, "POST", path, origin="https://other.example.com"), 403)
    signed = send(port, "POST", path)
    expect(signed, 303)
    cookie = signed.getheader("set-cookie")
    assert "; Secure" in cookie and "HttpOnly" in cookie and "SameSite=Strict" in cookie, cookie
    assert signed.getheader("location") == "/", signed.getheader("location")
    cookie, json_type = cookie.split(";")[0], "application/json"
    thread = json.loads(expect(send(port, "POST", "/api/v1/threads", "{}", cookie=cookie, content_type=json_type), 201))["id"]
    path = f"/api/v1/threads/{thread}"
    foreign = send(port, "POST", f"{path}/turns", json.dumps({"text": "Hello"}), cookie=cookie, content_type=json_type, origin="https://other.example.com")
    expect(foreign, 403)
    stream = send(port, "GET", f"{path}/events", cookie=cookie)
    assert stream.status == 200, stream.status
    # A proxy that collects would send nothing before the stream ends, and it never ends.
    assert stream.readline() == b"event: live\n"
    expect(send(port, "POST", f"{path}/turns", json.dumps({"text": "Hello"}), cookie=cookie, content_type=json_type), 202)
    names = []
    while "turn_ended" not in names:
        line = stream.readline()
        if line.startswith(b"event: "):
            names.append(line[7:].strip().decode())
        assert line, names
    assert "responded" in names, names
    stream.close()
    file = f"{path}/files/content?path=/project/large.bin"
    expect(send(port, "PUT", file, b"\0" * LARGE, cookie=cookie, content_type="application/octet-stream"), 201)
    assert len(expect(send(port, "GET", file, cookie=cookie), 200)) == LARGE


for make, link in zip((caddy, nginx), links, strict=True):
    port = free_port()
    environment = {**os.environ, "HOME": str(directory), "XDG_DATA_HOME": str(directory), "XDG_CONFIG_HOME": str(directory)}
    with open(directory / f"{make.__name__}.log", "wb") as log:
        proxy = subprocess.Popen(make(port), env=environment, stdout=log, stderr=log)
        try:
            use(port, link)
        except BaseException:
            sys.stderr.write((directory / f"{make.__name__}.log").read_text()[-3000:])
            raise
        finally:
            proxy.kill()
            proxy.wait(30)
    print(f"{make.__name__}: a page, a session, a stream and a file of {LARGE >> 20} MiB")
