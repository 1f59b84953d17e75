"""`clearhead studio`: every view and every use in the browser."""

from pathlib import Path

import typer
from typer import Option

from clearhead.cli.options import CHECKPOINT, Verbs
from clearhead.errors import NotFound

app = Verbs()


@app.command()
def studio(
    model: list[str] | None = Option(
        None, "--model", "-m", help=f"{CHECKPOINT} Give it again for more. The built-in ones are there too."
    ),
    runs: list[Path] | None = Option(None, help="The folder of a training run; give it again for more."),
    port: int | None = Option(None, help="The port. Default: 8642, or a free one."),
    timeout: float = Option(60.0, min=1, help="Seconds in which a page must be computed; then it is ended."),
    browser: bool = Option(True, "--browser/--no-browser", help="Open the studio in the browser."),
) -> None:
    """Open the studio: looking inside and using models, on a page of this machine that nobody else can reach.

    Example: `clearhead studio`, or `clearhead studio --model ./my-model --runs ./my-model`
    """
    try:
        from clearhead.studio.serve import serve
    except ImportError as error:
        raise NotFound(f"the studio needs {error.name}; run: pip install 'clearhead[studio]'") from None

    from clearhead.hub.remote import find

    for name in model or []:
        find(name)  # a wrong name is told now, not on every page

    def tell(address: str) -> None:
        typer.echo(f"the studio is at {address}; Ctrl+C ends it")

    serve(model or [], runs or [], port=port, browser=browser, tell=tell, deadline=timeout)
