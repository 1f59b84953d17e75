"""`clearhead serve`: every use over HTTP."""

from pathlib import Path

import typer
from typer import Option

from clearhead.cli.options import Verbs
from clearhead.errors import BadInput, NotFound, require

app = Verbs()


@app.command()
def serve(
    model: list[str] | None = Option(
        None,
        "--model",
        "-m",
        help="NAME=FOLDER (or a name on the hub): serve this model as NAME, its skills as NAME:SKILL. Give it again "
        "for more. The built-in ones are there too.",
    ),
    index: list[str] | None = Option(
        None, help="NAME=FOLDER, or NAME=URL of a store: an index to search as NAME. Give it again for more."
    ),
    host: str = Option("127.0.0.1", help="The address to listen at. Another than this machine's own needs a key."),
    port: int = Option(8643, help="The port; 0 is any that is free."),
    api_key: list[str] | None = Option(
        None, envvar="CLEARHEAD_API_KEY", help="A key that requests must bring; several with commas, or given again."
    ),
    api_key_file: Path | None = Option(None, help="A file with keys, one a line."),
    insecure: bool = Option(False, "--insecure", help="Let other machines in without a key."),
    cors_origin: list[str] | None = Option(
        None, help="A site whose pages may ask, such as https://example.org; * is any."
    ),
    allow_host: list[str] | None = Option(
        None,
        help="A name under which the service is asked for (the Host header); * is any. Default: this machine's own.",
    ),
    tls_cert: Path | None = Option(None, help="The certificate, for https."),
    tls_key: Path | None = Option(None, help="Its private key."),
    preload: bool = Option(
        True, "--preload/--no-preload", help="Load models at the start, or when they are first asked."
    ),
    max_memory: str | None = Option(None, help="Let models go that were not asked lately above this, such as 4GB."),
    max_queue_tokens: int = Option(65_536, help="How many tokens may wait; above it requests are refused with 429."),
    max_body_bytes: int = Option(2_000_000, help="The largest body."),
    timeout: float = Option(60.0, help="Seconds in which a request must be answered, unless it says x-timeout-ms."),
    grace: float = Option(30.0, help="Seconds left to what is being answered when the service is told to end."),
    device: str | None = Option(None, help="cpu or cuda. Default: a GPU if there is one."),
    dtype: str = Option("float32", help="What models compute with: float32, float16 or bfloat16."),
    int8: Path | None = Option(
        None, help="Multiply in 8 bits on a CPU, where the texts of this file, one a line, come out the same."
    ),
    reload_model: bool = Option(
        False, "--reload-model", help="Take a model's new files when they change, without a pause."
    ),
    studio: bool = Option(
        False, "--studio", help="Serve the studio too, for browsers: at /, or /studio. Not together with API keys."
    ),
    log_format: str = Option("text", help="text or json."),
    log_texts: bool = Option(False, "--log-texts", help="Write the texts of requests to the log, too."),
) -> None:
    """Serve every use over HTTP, to clients of OpenAI, TEI, Cohere, Jina, Hugging Face's Inference API, and our own.

    Examples: `clearhead serve`, `clearhead serve --model mine=./my-model --port 8000`, and then
    `curl localhost:8643/v1/tag -H 'content-type: application/json' -d '{"text": "Ada Lovelace lived in London."}'`
    """
    try:
        from clearhead.serve.app import Room
        from clearhead.serve.run import LOOPBACK, check_open, read_keys
        from clearhead.serve.run import serve as run
        from clearhead.serve.settings import Settings, named, size
    except ImportError as error:
        raise NotFound(f"the service needs {error.name}; run: pip install 'clearhead[serve]'") from None

    require((tls_cert is None) == (tls_key is None), "give both --tls-cert and --tls-key, or none", BadInput)
    keys = read_keys(api_key or [], api_key_file)
    own = () if host in LOOPBACK or host in ("0.0.0.0", "::") else (host,)  # noqa: S104
    anywhere = ("*",) if host in ("0.0.0.0", "::") and not allow_host else ()  # noqa: S104
    hosts = ("127.0.0.1", "localhost", "[::1]", *own, *(allow_host or ()), *anywhere)
    settings = Settings(
        models=named(model or [], "--model"),
        indexes=named(index or [], "--index"),
        device=device or _best_device(),
        dtype=dtype,
        int8=None if int8 is None else str(int8),
        preload=preload,
        reload=reload_model,
        max_memory=None if max_memory is None else size(max_memory),
        max_queue_tokens=max_queue_tokens,
        max_body_bytes=max_body_bytes,
        timeout=timeout,
        grace=grace,
        api_keys=keys,
        cors_origins=tuple(cors_origin or ()),
        allowed_hosts=hosts,
        studio=studio,
        log_format=log_format,
        log_texts=log_texts,
    )
    check_open(host, settings, insecure=insecure)

    def tell(address: str) -> None:
        typer.echo(f"the service is at {address}, its page of examples at {address}/docs; Ctrl+C ends it", err=True)

    also: list[Room] = []
    if studio:
        from clearhead.studio.app import create_app

        also = [create_app(settings.models, deadline=timeout, hosts=hosts)]
    run(settings, host=host, port=port, certificate=tls_cert, key=tls_key, tell=tell, also=also)


def _best_device() -> str:
    """A GPU if there is one, which is told without torch: only the worker needs that."""
    return "cuda" if any(Path("/dev").glob("nvidia[0-9]*")) else "cpu"
