"""A Hugging Face Hub on this machine: the parts of its interface that pushing and fetching a model use."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def tag(content: bytes) -> str:
    """What identifies the content of a file."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


class Hub(BaseHTTPRequestHandler):
    """Answers requests, and keeps the files of models in memory."""

    models: ClassVar[dict[str, dict[str, bytes]]] = {}
    private: ClassVar[dict[str, bool]] = {}

    def log_message(self, format: str, *arguments: Any) -> None:
        """Prints nothing."""

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_json(self, value: Any, status: int = 200) -> None:
        self.answer(json.dumps(value).encode(), status, Content_Type="application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        words = self.path.partition("?")[0].strip("/").split("/")
        if self.headers.get("Authorization") != "Bearer secret":
            self.answer_json({"error": "Invalid username or password."}, 401)
        elif self.path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted['organization']}/{wanted['name']}" if wanted.get("organization") else f"me/{wanted['name']}"
            self.models.setdefault(name, {})
            self.private[name] = wanted.get("visibility") == "private" or bool(wanted.get("private"))
            self.answer_json({"url": f"http://{self.headers['Host']}/{name}", "name": name, "id": name})
        elif words[-2] == "preupload":
            files = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in json.loads(body)["files"]]
            self.answer_json({"files": files})
        elif words[-2] == "commit":
            name = "/".join(words[2:4])
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.models[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.answer_json(
                {"success": True, "commitOid": COMMIT, "commitUrl": f"http://{self.headers['Host']}/{name}/commit/x"}
            )
        else:
            self.answer_json({})

    def do_GET(self) -> None:
        words = self.path.partition("?")[0].strip("/").split("/")
        name = "/".join(words[2:4]) if words[0] == "api" else "/".join(words[:2])
        if name not in self.models:
            why = "Repository not found"
            self.answer(json.dumps({"error": why}).encode(), 404, X_Error_Code="RepoNotFound", X_Error_Message=why)
        elif words[0] == "api" and "tree" in words:
            contents = self.models[name].items()
            self.answer_json([{"type": "file", "path": path, "size": len(data), "oid": tag(data)} for path, data in contents])
        elif words[0] == "api":
            files = [{"rfilename": path} for path in self.models[name]]
            self.answer_json({"id": name, "sha": COMMIT, "siblings": files, "private": self.private[name]})
        else:
            content = self.models[name]["/".join(words[4:])]
            self.answer(content, ETag=f'"{tag(content)}"', X_Repo_Commit=COMMIT)

    def do_HEAD(self) -> None:
        self.do_GET()


@contextmanager
def local_hub() -> Iterator[str]:
    """The address of a Hub that runs while the block does."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
