"""What is seen from outside: Prometheus metrics under our names and under those of TEI's dashboards, and spans."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from clearhead.serve.work import Done, Refusal

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_TEI_SECONDS = tuple(1.5e-5 * 1.5**step for step in range(35))  # as TEI has them
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 4096, 16_384, 65_536)
# what TEI calls our reasons
_TEI_ERRORS = {
    "overloaded": "overloaded",
    "invalid": "validation",
    "too_long": "validation",
    "too_large": "batch_size",
    "wrong_task": "model_type",
    "deadline": "dropped",
}
_TEI_USES = {"embed": "te_embed", "embed-tokens": "te_embed", "classify": "te_predict", "rerank": "te_predict"}
_TEI_PARTS = ("duration", "tokenization_duration", "queue_duration", "inference_duration")


class Metrics:
    """All metrics of one service."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()

        def histogram(name: str, about: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
            return Histogram(name, about, labels, buckets=buckets, registry=own)

        self._requests = Counter(
            "clearhead_requests_total", "Requests by use and status", ("use", "status"), registry=own
        )
        self._seconds = {
            "request": histogram("clearhead_request_seconds", "From the request to its answer", "use"),
            "queue": histogram("clearhead_queue_seconds", "Waiting for a batch", "use"),
            "compute": histogram("clearhead_compute_seconds", "Being computed", "use"),
        }
        self._batches = histogram("clearhead_batch_tokens", "Tokens of a batch", buckets=_TOKENS)
        self._queue = Gauge("clearhead_queue_tokens", "Tokens that were taken and are not done", registry=own)
        self._rejected = Counter("clearhead_rejected_total", "Requests refused, by reason", ("reason",), registry=own)
        self._tokens = Counter("clearhead_tokens_total", "Tokens read and written", ("kind",), registry=own)
        self._losses = Counter("clearhead_worker_restarts_total", "Workers lost and started again", registry=own)
        self._loaded = Gauge("clearhead_models_loaded", "Models in memory", registry=own)
        self._memory = Gauge("clearhead_worker_memory_bytes", "Resident memory of the worker", registry=own)
        self._ready = Gauge("clearhead_ready", "1 where work is taken", registry=own)
        self._tei = _TeiMetrics(own)

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return generate_latest(self._registry)

    def done(self, use: str, done: Done, *, items: int) -> None:
        """Count a request that was answered."""
        self._requests.labels(use, "200").inc()
        self._tokens.labels("read").inc(done.read)
        self._tokens.labels("written").inc(done.written)
        for name, seconds in (
            ("request", done.total_seconds),
            ("queue", done.queue_seconds),
            ("compute", done.compute_seconds),
        ):
            self._seconds[name].labels(use).observe(seconds)
        self._tei.done(use, done, items)

    def refused(self, use: str, refused: Refusal, status: int) -> None:
        """Count a request that was not."""
        self._requests.labels(use, str(status)).inc()
        self._rejected.labels(refused.reason).inc()
        self._tei.failure.labels(_TEI_ERRORS.get(refused.reason, "inference")).inc()

    def report(self, queue_tokens: int, memory: int, batches: list[tuple[int, float]], loaded: int | None) -> None:
        """Take what the worker reports."""
        self._queue.set(queue_tokens)
        self._memory.set(memory)
        self._tei.queue.set(queue_tokens)
        if loaded is not None:
            self._loaded.set(loaded)
        for tokens, _ in batches:
            self._batches.observe(tokens)
            self._tei.batch.observe(tokens)

    def lost(self) -> None:
        """Count a worker that was lost."""
        self._losses.inc()

    def ready(self, now: bool) -> None:
        """Say whether work is taken."""
        self._ready.set(int(now))


class _TeiMetrics:
    """The same under the names that dashboards for text-embeddings-inference look for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, about: str, buckets: tuple[float, ...] = _TEI_SECONDS) -> Histogram:
            return Histogram(name, about, buckets=buckets, registry=registry)

        method = ("method",)
        self.count = Counter("te_request_count", "Requests", method, registry=registry)
        self.success = Counter("te_request_success", "Requests answered", method, registry=registry)
        self.failure = Counter("te_request_failure", "Requests refused", ("err",), registry=registry)
        self.queue = Gauge("te_queue_size", "Tokens that wait", registry=registry)
        self.batch = histogram("te_batch_next_tokens", "Tokens of a batch", _TOKENS)
        self.length = histogram("te_request_input_length", "Tokens of a request", _TOKENS)
        names = ("te_request", *sorted(set(_TEI_USES.values())))
        self.seconds = {name: {part: histogram(f"{name}_{part}", part) for part in _TEI_PARTS} for name in names}
        self.uses = {
            name: (
                Counter(f"{name}_count", "Texts", registry=registry),
                Counter(f"{name}_success", "Texts answered", registry=registry),
            )
            for name in names[1:]
        }

    def done(self, use: str, done: Done, items: int) -> None:
        method = "single" if items == 1 else "batch"
        self.count.labels(method).inc()
        self.success.labels(method).inc()
        self.length.observe(done.read)
        parts = (done.total_seconds, done.tokenise_seconds, done.queue_seconds, done.compute_seconds)
        for name in ("te_request", *([_TEI_USES[use]] if use in _TEI_USES else [])):
            for part, seconds in zip(_TEI_PARTS, parts, strict=True):
                self.seconds[name][part].observe(seconds)
        if use in _TEI_USES:
            for counter in self.uses[_TEI_USES[use]]:
                counter.inc(items)


def timing_headers(done: Done, characters: int) -> dict[str, str]:
    """Where the time went, in milliseconds, under TEI's names."""

    def milliseconds(seconds: float) -> str:
        return str(round(seconds * 1000))

    return {
        "x-compute-type": "clearhead",
        "x-compute-time": milliseconds(done.total_seconds),
        "x-compute-characters": str(characters),
        "x-compute-tokens": str(done.read),
        "x-total-time": milliseconds(done.total_seconds),
        "x-tokenization-time": milliseconds(done.tokenise_seconds),
        "x-queue-time": milliseconds(done.queue_seconds),
        "x-inference-time": milliseconds(done.compute_seconds),
        **({"x-truncated": str(done.cut)} if done.cut else {}),
    }


@contextmanager
def span(name: str, headers: Mapping[str, str], **attributes: Any) -> Iterator[None]:
    """A span of OpenTelemetry, below the caller's, where that is installed; else nothing."""
    if _tracing is None:
        yield
        return
    trace, propagate = _tracing
    tracer = trace.get_tracer("clearhead.serve")
    with tracer.start_as_current_span(name, context=propagate.extract(headers), attributes=attributes):
        yield


def _find_tracing() -> tuple[Any, Any] | None:
    try:
        return import_module("opentelemetry.trace"), import_module("opentelemetry.propagate")
    except ImportError:
        return None


_tracing = _find_tracing()
