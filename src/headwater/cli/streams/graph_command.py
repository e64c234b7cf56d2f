"""`headwater stream graph`: the streams that copy one another, as text, SVG or JSON."""

from pathlib import Path

import click

from headwater.cli.api.client import ApiTarget
from headwater.cli.api.command import JSON_OPTION, STREAM_NAME, api_command, document
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.render import count_text
from headwater.cli.streams.commands import remark_on_missing
from headwater.cli.streams.copies import missing_advice
from headwater.cli.streams.graph import Graph, tree_text
from headwater.cli.streams.graph_svg import svg_text


@api_command(
    "graph",
    examples="""
headwater stream graph                        all streams that copy or are copied
headwater stream graph ORDERS                 only those connected with ORDERS
headwater stream graph --svg streams.svg      a picture; - writes it to standard output
headwater stream graph --json | jq '.copies[] | select(.lag > 1000)'
""",
)
@click.argument("name", type=STREAM_NAME, required=False)
@click.option("--svg", "file", metavar="FILE|-", help="Write a picture in SVG.")
@JSON_OPTION
def graph(
    api: ApiTarget, output: Output, name: str | None, file: str | None, as_json: bool
) -> ExitCode:
    """Show which streams are mirrors and sources of which, with lag and errors.

    An arrow leads from an origin to its copy. Streams that copy nothing and are copied by none are
    left out.
    """
    if file == "-" and as_json:
        raise click.UsageError("--svg - and --json exclude one another")
    listed = api.call(lambda calls: calls.streams())
    shown = Graph.of(listed.infos, listed.missing)
    if name is not None:
        known = {info["config"]["name"] for info in listed.infos} | set(listed.missing)
        if name not in known and (name, "") not in shown.nodes:
            raise CommandFailed(
                f"There is no stream {name}", "See what there is with: headwater stream ls"
            )
        shown = shown.around(name)
    if file is not None:
        write_picture(output, file, svg_text(shown))
    if as_json:
        output.result(document(shown.fields()))
    elif file is None and shown.edges:
        output.result(tree_text(shown))
    remark_on_graph(output, shown, name)
    for line in missing_advice(shown.edges):
        output.remark(line)
    remark_on_missing(listed.missing, output)
    return ExitCode.OK


def write_picture(output: Output, file: str, picture: str) -> None:
    """Write a picture into a file, or to standard output for `-`. Raises CommandFailed."""
    if file == "-":
        output.body(picture.rstrip("\n").encode())
        return
    try:
        Path(file).write_text(picture, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(
            f"{file} cannot be written: {error.strerror or error}",
            "Does the folder exist, and may you write there?",
        ) from error
    output.remark(f"Wrote {file}")


def remark_on_graph(output: Output, shown: Graph, name: str | None) -> None:
    """Remark on a graph without copies, and on the streams that it leaves out."""
    if not shown.edges:
        subject = f"Stream {name} copies nothing and" if name else "No stream copies another, or"
        output.remark(
            f"{subject} is copied by none. Make a copy with: "
            f"headwater stream add COPY --mirror {name or 'NAME'}"
        )
    elif shown.alone:
        output.remark(f"Not shown: {count_text(shown.alone, 'stream')} without origins and copies")
