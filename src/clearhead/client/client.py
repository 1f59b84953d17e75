"""`connect`: a service as an object with the methods of `Model`, synchronous or asynchronous."""

from __future__ import annotations

import asyncio
import json
from asyncio import sleep as sleep_later
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import wraps
from itertools import islice
from time import sleep
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast
from weakref import finalize

from clearhead.client import uses
from clearhead.client.connection import Address, Connection, ServedModel
from clearhead.client.patience import TooLarge
from clearhead.client.request import Asked, Item
from clearhead.errors import BadInput, keywords, require

if TYPE_CHECKING:
    from clearhead.client import calls
    from clearhead.client.calls import Later, Method, OfPairs, OfPrompts, OfTexts

Given = TypeVar("Given")
Result = TypeVar("Result")
P = ParamSpec("P")

_AT_A_TIME = 4  # requests of one call: the service has work while the next is on its way, and nobody else is kept out


@keywords
def connect(
    url: str, *, api_key: str | None = None, model: str | None = None, timeout: float = 60.0, retries: int = 4
) -> Client:
    """A client of the service at `url`, with the methods of `Model`; nothing is sent before the first of them.

    The key is the one named, or CLEARHEAD_API_KEY's. `model` is asked where a method names none; without one, the
    service takes the model made for the use. `timeout`, in seconds, is for each request with its `retries`, which wait
    as long as the service says.

    >>> service = clearhead.connect("http://127.0.0.1:8643")
    >>> service
    Client('http://127.0.0.1:8643')
    """
    return Client(Address.of(url, api_key, model, timeout, retries))


@keywords
def connect_async(
    url: str, *, api_key: str | None = None, model: str | None = None, timeout: float = 60.0, retries: int = 4
) -> AsyncClient:
    """The same for asynchronous programs: every method is awaited, and of a stream gives an asynchronous iterator."""
    return AsyncClient(Address.of(url, api_key, model, timeout, retries))


def _streamed(prompt: str, options: dict[str, Any]) -> bytes:
    """The body of a request for text while it is written."""
    require(isinstance(prompt, str), f"A text must be a string, not {type(prompt).__name__}.", BadInput)
    asked = uses.generate(prompt, **options)
    return _encoded({**asked.said, "text": prompt, "stream": True})


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


# ---- a method of each use, whose description gives its types ------------------------------------------------------


def _method(describe: Callable[..., Asked[Any]]) -> Any:
    @wraps(describe)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        return self._run(describe(*args, **self._named(options)))

    return call


def _of_texts(
    describe: Callable[Concatenate[Iterable[Given], P], Asked[Result]],
) -> Method[OfTexts[Given, Iterator[Given], P, Result, list[Result], Iterator[Result]]]:
    return cast("Any", _method(describe))


def _of_pairs(
    describe: Callable[Concatenate[Any, Any, P], Asked[Result]],
) -> Method[OfPairs[Iterator[str], P, Result, list[Result], Iterator[Result]]]:
    return cast("Any", _method(describe))


def _of_prompts(
    describe: Callable[Concatenate[Iterable[str], P], Asked[Result]],
) -> Method[
    OfPrompts[
        Iterator[str],
        P,
        Result,
        list[Result],
        Iterator[Result],
        list[Result],
        list[list[Result]],
        Iterator[list[Result]],
    ]
]:
    return cast("Any", _method(describe))


def _of_texts_later(
    describe: Callable[Concatenate[Iterable[Given], P], Asked[Result]],
) -> Method[
    OfTexts[Given, Iterator[Given] | AsyncIterator[Given], P, Later[Result], Later[list[Result]], AsyncIterator[Result]]
]:
    return cast("Any", _method(describe))


def _of_pairs_later(
    describe: Callable[Concatenate[Any, Any, P], Asked[Result]],
) -> Method[OfPairs[Iterator[str] | AsyncIterator[str], P, Later[Result], Later[list[Result]], AsyncIterator[Result]]]:
    return cast("Any", _method(describe))


def _of_prompts_later(
    describe: Callable[Concatenate[Iterable[str], P], Asked[Result]],
) -> Method[
    OfPrompts[
        Iterator[str] | AsyncIterator[str],
        P,
        Later[Result],
        Later[list[Result]],
        AsyncIterator[Result],
        Later[list[Result]],
        Later[list[list[Result]]],
        AsyncIterator[list[Result]],
    ]
]:
    return cast("Any", _method(describe))


class Client(Connection):
    """A service, used as a `Model` is: one text has one result, a list a list, an iterator an iterator.

    `model` is an id of the service (see `models`), and `skill` one of its skills. Many texts are sent in several
    requests, a few at a time. It may be shared by threads.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._http = self._httpx.Client(**address.options())
        finalize(self, self._http.close)  # if nobody else does

    fill = _of_texts(uses.fill)
    classify = _of_texts(uses.classify)
    zero_shot = _of_texts(uses.zero_shot)
    compare = _of_pairs(uses.compare)
    follows = _of_pairs(uses.follows)
    tag = _of_texts(uses.tag)
    answer: Method[calls.Answering] = _method(uses.answer)
    choose: Method[calls.Choosing] = _method(uses.choose)
    search: Method[calls.Searching] = _method(uses.search)
    rerank: Method[calls.Reranking] = _method(uses.rerank)
    summarise: Method[calls.Summarising] = _method(uses.summarise)
    translate = _of_prompts(uses.translate)
    generate = _of_prompts(uses.generate)
    embed: Method[calls.Embedding]

    @wraps(uses.embed)  # type: ignore[no-redef]
    def embed(self, *args: Any, **options: Any) -> Any:  # noqa: D102 – the description's
        asked = uses.embed(*args, **self._named(options))
        return uses.vectors(asked, list(self._stream_of(asked)))

    def stream(
        self, prompt: str, *, max_new_tokens: int | None = None, **options: Unpack[calls.StreamOptions]
    ) -> Iterator[str]:
        """The text of `generate`, piece by piece while it is written."""
        return self._pieces(_streamed(prompt, self._named({**options, "max_new_tokens": max_new_tokens})))

    def models(self) -> list[ServedModel]:
        """The models that can be asked, and their skills."""
        return self._models(self._ask("GET", "/v1/models"))

    def asynchronous(self) -> AsyncClient:
        """The same service for an asynchronous program."""
        return AsyncClient(self._address)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, asked: Asked[Result]) -> Result | list[Result] | Iterator[Result]:
        found = self._stream_of(asked)
        if asked.one:
            return next(found)
        return list(found) if asked.listed else found

    def _stream_of(self, asked: Asked[Result]) -> Iterator[Result]:
        """The results in order; of several requests, a few are under way at a time."""
        parts = asked.parts()
        begun = list(islice(parts, 2))
        if len(begun) < 2:
            for part in begun:
                yield from self._results(asked, part, self._ask_for(asked, part))
            return
        pool = ThreadPoolExecutor(_AT_A_TIME, "clearhead-client")
        waiting: deque[tuple[list[Item], Future[Any]]] = deque()
        try:
            for source in (begun, parts):
                for part in source:
                    waiting.append((part, pool.submit(self._ask_for, asked, part)))
                    if len(waiting) == _AT_A_TIME:
                        done, future = waiting.popleft()
                        yield from self._results(asked, done, future.result())
            for part, future in waiting:
                yield from self._results(asked, part, future.result())
        finally:  # after an error, or when nobody reads on, nothing more is asked
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask_for(self, asked: Asked[Any], part: Sequence[Item]) -> Any:
        try:
            return self._ask("POST", f"/v1/{asked.use}", _encoded(asked.body(part)))
        except TooLarge:
            if len(part) == 1:
                raise
            half = len(part) // 2
            return [*self._ask_for(asked, part[:half]), *self._ask_for(asked, part[half:])]

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        patience = self._address.patience()
        while True:
            try:
                how = {"headers": patience.headers(), "timeout": self._wait_for(patience)}
                answer = self._http.request(method, path, content=body, **how)
            except self._httpx.TransportError as wrong:
                pause = self._after(patience, wrong)
            else:
                if answer.status_code == 200:
                    return self._read(answer.content)
                pause = patience.after(answer.status_code, answer.headers, answer.content)
            sleep(pause)

    def _pieces(self, body: bytes) -> Iterator[str]:
        patience, begun = self._address.patience(), False
        while True:
            how = {"headers": patience.headers(), "timeout": self._wait_for(patience)}
            try:
                with self._http.stream("POST", "/v1/generate", content=body, **how) as answer:
                    if answer.status_code == 200:
                        begun = True
                        for line in answer.iter_lines():
                            if (piece := self._piece(line)) is not None:
                                yield piece
                        return
                    pause = patience.after(answer.status_code, answer.headers, answer.read())
            except self._httpx.TransportError as wrong:
                if begun:
                    raise self._broke_off(wrong) from None
                pause = self._after(patience, wrong)
            sleep(pause)


class AsyncClient(Connection):
    """The twin of `Client` for asynchronous programs: its methods are awaited.

    Of an iterator, which may be an asynchronous one, they give an asynchronous iterator, as `stream` does.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._http = self._httpx.AsyncClient(**address.options())

    fill = _of_texts_later(uses.fill)
    classify = _of_texts_later(uses.classify)
    zero_shot = _of_texts_later(uses.zero_shot)
    compare = _of_pairs_later(uses.compare)
    follows = _of_pairs_later(uses.follows)
    tag = _of_texts_later(uses.tag)
    answer: Method[calls.AnsweringLater] = _method(uses.answer)
    choose: Method[calls.ChoosingLater] = _method(uses.choose)
    search: Method[calls.SearchingLater] = _method(uses.search)
    rerank: Method[calls.RerankingLater] = _method(uses.rerank)
    summarise: Method[calls.SummarisingLater] = _method(uses.summarise)
    translate = _of_prompts_later(uses.translate)
    generate = _of_prompts_later(uses.generate)
    embed: Method[calls.EmbeddingLater]

    @wraps(uses.embed)  # type: ignore[no-redef]
    async def embed(self, *args: Any, **options: Any) -> Any:  # noqa: D102 – the description's
        asked = uses.embed(*args, **self._named(options))
        return uses.vectors(asked, [one async for one in self._stream_of(asked)])

    def stream(
        self, prompt: str, *, max_new_tokens: int | None = None, **options: Unpack[calls.StreamOptions]
    ) -> AsyncIterator[str]:
        """The text of `generate`, piece by piece while it is written."""
        return self._pieces(_streamed(prompt, self._named({**options, "max_new_tokens": max_new_tokens})))

    async def models(self) -> list[ServedModel]:
        """The models that can be asked, and their skills."""
        return self._models(await self._ask("GET", "/v1/models"))

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _run(self, asked: Asked[Result]) -> Later[Result | list[Result]] | AsyncIterator[Result]:
        return self._gathered(asked) if asked.one or asked.listed else self._stream_of(asked)

    async def _gathered(self, asked: Asked[Result]) -> Result | list[Result]:
        found = [one async for one in self._stream_of(asked)]
        return found[0] if asked.one else found

    async def _stream_of(self, asked: Asked[Result]) -> AsyncIterator[Result]:
        """The results in order; of several requests, a few are under way at a time."""
        waiting: deque[tuple[list[Item], asyncio.Task[Any]]] = deque()
        try:
            async for part in asked.parts_later():
                waiting.append((part, asyncio.create_task(self._ask_for(asked, part))))
                if len(waiting) == _AT_A_TIME:
                    done, task = waiting.popleft()
                    for one in self._results(asked, done, await task):
                        yield one
            while waiting:
                done, task = waiting.popleft()
                for one in self._results(asked, done, await task):
                    yield one
        finally:  # after an error, or when nobody reads on, nothing more is asked
            for _, task in waiting:
                task.cancel()
            await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)

    async def _ask_for(self, asked: Asked[Any], part: Sequence[Item]) -> Any:
        try:
            return await self._ask("POST", f"/v1/{asked.use}", _encoded(asked.body(part)))
        except TooLarge:
            if len(part) == 1:
                raise
            half = len(part) // 2
            return [*await self._ask_for(asked, part[:half]), *await self._ask_for(asked, part[half:])]

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        patience = self._address.patience()
        while True:
            try:
                how = {"headers": patience.headers(), "timeout": self._wait_for(patience)}
                answer = await self._http.request(method, path, content=body, **how)
            except self._httpx.TransportError as wrong:
                pause = self._after(patience, wrong)
            else:
                if answer.status_code == 200:
                    return self._read(answer.content)
                pause = patience.after(answer.status_code, answer.headers, answer.content)
            await sleep_later(pause)

    async def _pieces(self, body: bytes) -> AsyncIterator[str]:
        patience, begun = self._address.patience(), False
        while True:
            how = {"headers": patience.headers(), "timeout": self._wait_for(patience)}
            try:
                async with self._http.stream("POST", "/v1/generate", content=body, **how) as answer:
                    if answer.status_code == 200:
                        begun = True
                        async for line in answer.aiter_lines():
                            if (piece := self._piece(line)) is not None:
                                yield piece
                        return
                    pause = patience.after(answer.status_code, answer.headers, await answer.aread())
            except self._httpx.TransportError as wrong:
                if begun:
                    raise self._broke_off(wrong) from None
                pause = self._after(patience, wrong)
            await sleep_later(pause)
