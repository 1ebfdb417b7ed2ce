"""Simulate a person at a browser, who logs in, runs notebooks, and fetches and submits homework.

Everything goes over the hub's public address, with the cookies of a login by name and password.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, WebSocketError, websocket_connect

CELL_LIMIT_S = 3600
#: A picture comes in a single message, so the limit is large.
MAX_MESSAGE_BYTES = 256 << 20


class TroubleError(Exception):
    """A problem that a person would complain about, in one line."""


@dataclass
class CellRun:
    """The outcome of a cell."""

    text: str = ""
    complaints: list[str] = field(default_factory=list)
    waited: bool = False


class Person:
    """One user of the hub, in one browser."""

    def __init__(self, url: str, name: str, password: str) -> None:
        self.url = url
        self.name = name
        self._password = password
        self._client = httpx.AsyncClient(base_url=url, follow_redirects=True, timeout=300)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    # -- pages --

    async def log_in(self) -> float:
        """Log in and wait for JupyterLab; return the elapsed seconds."""
        started_s = time.monotonic()
        await self._page("/hub/login")
        form = {"username": self.name, "password": self._password, "_xsrf": self._xsrf("/hub/")}
        page = await self._page("/hub/login", form)
        if "/hub/login" in page.url.path:
            raise TroubleError("the name and password were refused")
        if page.url.path.startswith("/hub/spawn-pending/"):
            await self._see_it_start()
            page = await self._page(f"/user/{self.name}/lab")
        if not (page.url.path.startswith(f"/user/{self.name}/") and page.is_success):
            raise TroubleError(f"no server: {page.status_code} at {page.url.path}")
        return time.monotonic() - started_s

    async def _see_it_start(self) -> None:
        """Wait for the event "ready", as the page with the progress bar does."""
        address = f"/hub/api/users/{self.name}/server/progress"
        headers = {"X-XSRFToken": self._xsrf("/hub/"), "Sec-Fetch-Mode": "cors"}
        async with self._client.stream("GET", address, headers=headers) as answer:
            async for line in answer.aiter_lines():
                event = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
                if event.get("failed"):
                    raise TroubleError(f"no server: {event.get('message')}")
                if event.get("ready"):
                    return
        raise TroubleError("the hub stopped telling how the server starts")

    async def _page(self, path: str, form: dict[str, str] | None = None) -> httpx.Response:
        headers = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "same-origin"}
        method = "GET" if form is None else "POST"
        return await self._client.request(method, path, data=form, headers=headers)

    def _xsrf(self, path: str) -> str:
        for cookie in self._client.cookies.jar:
            if cookie.name == "_xsrf" and cookie.path == path:
                return cookie.value or ""
        raise TroubleError(f"no _xsrf cookie for {path}")

    # -- their own server --

    async def ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Send a request to this person's server; return the JSON of its answer, or None."""
        base = f"/user/{self.name}/"
        answer = await self._client.request(
            method,
            base + path,
            json=body,
            params=query,
            headers={
                "X-XSRFToken": self._xsrf(base),
                "Sec-Fetch-Mode": "cors",
                "Sec-Fetch-Site": "same-origin",
            },
        )
        if not answer.is_success:
            raise TroubleError(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer.json() if answer.content else None

    async def read(self, path: str) -> Any:
        """Return a file's content, or a notebook's JSON."""
        return (await self.ask("GET", f"api/contents/{path}"))["content"]

    async def write(self, path: str, content: Any) -> None:
        """Save a file or a notebook."""
        kind = "notebook" if path.endswith(".ipynb") else "file"
        body = {"type": kind, "format": "json" if kind == "notebook" else "text"}
        await self.ask("PUT", f"api/contents/{path}", body | {"content": content})

    async def open_kernel(self, notebook: str) -> Kernel:
        body = {"path": notebook, "name": notebook, "type": "notebook"}
        session = await self.ask("POST", "api/sessions", body | {"kernel": {"name": "python3"}})
        path = f"/user/{self.name}/api/kernels/{session['kernel']['id']}/channels"
        request = httpx.Request("GET", self.url + path)
        self._client.cookies.set_cookie_header(request)
        headers = {
            "Cookie": request.headers["Cookie"],
            "Origin": self.url,
            "Sec-Fetch-Mode": "websocket",
        }
        address = self.url.replace("http", "ws", 1) + path
        try:
            channel = await websocket_connect(
                HTTPRequest(address, headers=headers, connect_timeout=300, request_timeout=300),
                max_message_size=MAX_MESSAGE_BYTES,
            )
        except (HTTPClientError, WebSocketError) as error:
            raise TroubleError(f"the kernel does not answer: {error}") from error
        return Kernel(self, session["id"], channel)


class Kernel:
    """An open notebook's kernel."""

    def __init__(self, person: Person, session: str, channel: WebSocketClientConnection) -> None:
        self._person = person
        self._session = session
        self._channel = channel

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._channel.close()
        await self._person.ask("DELETE", f"api/sessions/{self._session}")

    async def run(self, source: str) -> CellRun:
        """Run a cell, as Shift-Enter does, until the kernel is idle again."""
        header = {"msg_id": secrets.token_hex(8), "msg_type": "execute_request", "date": ""}
        header |= {"username": self._person.name, "version": "5.3", "session": self._session}
        # The kernel may ask for input, as it does with a person.
        content = {"code": source, "silent": False, "allow_stdin": True, "stop_on_error": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        await self._channel.write_message(json.dumps(message | {"channel": "shell"}))
        run = CellRun()
        while True:
            text = await asyncio.wait_for(self._channel.read_message(), CELL_LIMIT_S)
            if text is None:
                raise TroubleError("the server closed the kernel's connection")
            answer = json.loads(text)
            if answer["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            kind, reply = answer["msg_type"], answer["content"]
            if kind == "error":
                run.complaints.append(f"{reply['ename']}: {reply['evalue']}")
            elif kind == "stream" and reply["name"] == "stderr":
                run.complaints.append(f"stderr: {reply['text'].strip()[:300]}")
            elif kind == "stream":
                run.text += reply["text"]
            elif kind in ("display_data", "execute_result"):
                run.text += reply["data"].get("text/plain", "")
                run.waited |= "Waiting for another measurement" in json.dumps(reply["data"])
            elif kind == "status" and reply["execution_state"] == "idle":
                return run
