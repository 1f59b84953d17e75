"""A hub on this machine: the few endpoints that huggingface_hub calls to publish a folder and to fetch it again."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

Answer = tuple[int, dict[str, str], bytes]
MISSING: Answer = (404, {"X-Error-Code": "RepoNotFound"}, b"{}")


@dataclass
class Repository:
    private: bool = False
    files: dict[str, bytes] = field(default_factory=lambda: {".gitattributes": b""})
    messages: list[str] = field(default_factory=list)  # one for each commit

    @property
    def commit(self) -> str:
        return hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()


class Hub:
    """Serves `repositories` while it is entered; `answer` is given to every request where it is set."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.answer: Answer | None = None

    def __enter__(self) -> "Hub":
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def respond(self, method: str, path: str, body: bytes, *, authorised: bool) -> Answer:
        self.requests.append(f"{method} {path}")
        if self.answer is not None:
            return self.answer
        if method in ("POST", "PUT") and not authorised and not path.startswith("/blob/"):
            return 401, {}, b"{}"
        for verb, pattern, act in self.routes:
            found = re.fullmatch(pattern, path)
            if verb == method and found:
                return getattr(self, act.__name__)(body, *found.groups())
        return MISSING

    def create(self, body: bytes) -> Answer:
        wanted = json.loads(body)
        name = f"{wanted['organization'] or 'me'}/{wanted['name']}"
        status = 409 if name in self.repositories else 200
        self.repositories.setdefault(name, Repository(private=wanted.get("visibility") == "private"))
        return _json({"url": f"{self.url}/{name}"}, status)

    def accept_card(self, body: bytes) -> Answer:
        whole = json.loads(body)["content"].startswith("---\nlibrary_name:")
        return _json({}) if whole else _json({"errors": [{"message": "no front matter"}]}, 400)

    def info(self, _: bytes, name: str, revision: str | None = None) -> Answer:
        repository = self.repositories.get(name)
        if repository is None:
            return MISSING
        if revision not in (None, "main", repository.commit):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        files = [{"rfilename": file} for file in repository.files]
        return _json({"id": name, "sha": repository.commit, "private": repository.private, "siblings": files})

    def tree(self, _: bytes, name: str, __: str) -> Answer:
        files = self.repositories[name].files
        return _json([{"type": "file", "path": path, "size": len(x), "oid": _sha(x)} for path, x in files.items()])

    def resolve(self, _: bytes, name: str, __: str, path: str) -> Answer:
        content = self.repositories[name].files[path]
        return 200, {"ETag": f'"{_sha(content)}"', "X-Repo-Commit": self.repositories[name].commit}, content

    def choose_mode(self, body: bytes, _: str) -> Answer:
        paths = [file["path"] for file in json.loads(body)["files"]]
        modes = {path: "lfs" if path.endswith(".safetensors") else "regular" for path in paths}
        return _json({"files": [{"path": path, "uploadMode": modes[path], "shouldIgnore": False} for path in paths]})

    def plan_upload(self, body: bytes, _: str) -> Answer:
        objects = json.loads(body)["objects"]
        for item in objects:
            item["actions"] = {"upload": {"href": f"{self.url}/blob/{item['oid']}", "header": {}}}
        return _json({"transfer": "basic", "objects": objects})

    def upload(self, body: bytes, oid: str) -> Answer:
        assert hashlib.sha256(body).hexdigest() == oid
        self.blobs[oid] = body
        return _json({})

    def commit(self, body: bytes, name: str) -> Answer:
        repository = self.repositories[name]
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            match line["key"]:
                case "header":
                    repository.messages.append(value["summary"])
                case "file":
                    repository.files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    repository.files[value["path"]] = self.blobs[value["oid"]]
                case "deletedFile":
                    del repository.files[value["path"]]
        address = f"{self.url}/{name}/commit/{repository.commit}"
        return _json({"commitUrl": address, "commitOid": repository.commit})

    routes: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
        ("POST", "/api/repos/create", create),
        ("POST", "/api/validate-yaml", accept_card),
        ("GET", "/api/models/([^/]+/[^/]+)", info),
        ("GET", "/api/models/([^/]+/[^/]+)/revision/(.+)", info),
        ("GET", "/api/models/([^/]+/[^/]+)/tree/(.+)", tree),
        ("HEAD", "/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", resolve),
        ("GET", "/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", resolve),
        ("POST", "/api/models/([^/]+/[^/]+)/preupload/main", choose_mode),
        ("POST", "/([^/]+/[^/]+).git/info/lfs/objects/batch", plan_upload),
        ("PUT", "/blob/(.+)", upload),
        ("POST", "/api/models/([^/]+/[^/]+)/commit/main", commit),
    )


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = unquote(urlsplit(self.path).path)
            status, headers, content = hub.respond(self.command, path, body, authorised="Authorization" in self.headers)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _json(content: object, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(content).encode()


def _sha(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()
