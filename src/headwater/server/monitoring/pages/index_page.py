"""The page that a browser sees at the root of the monitoring port."""

from html import escape
from typing import Final

from headwater import __version__

# Path and title of each page, in nats-server's order.
PAGES: Final = (
    ("/varz", "General"),
    ("/jsz", "JetStream"),
    ("/connz", "Connections"),
    ("/accountz", "Accounts"),
    ("/accstatz", "Account Stats"),
    ("/subsz", "Subscriptions"),
    ("/routez", "Routes"),
    ("/leafz", "LeafNodes"),
    ("/gatewayz", "Gateways"),
    ("/raftz", "Raft Groups"),
    ("/healthz", "Health Probe"),
)

_STYLE: Final = """
    body { font: 17px/1.7 system-ui, sans-serif; margin: 3rem auto; max-width: 34rem; color: #223 }
    h1 { font-weight: 600; margin: 0 } h1 small { font-weight: 400; font-size: 0.5em; color: #778 }
    ul { list-style: none; padding: 0 } a { color: #14507a; text-decoration: none }
    a:hover { text-decoration: underline } code { color: #778; margin-left: 0.6em }
    @media (prefers-color-scheme: dark) {
      body { background: #14181c; color: #d7dde3 } a { color: #7cc0ee }
    }"""


def index_page(server_name: str, nats_version: str, base_path: str) -> bytes:
    """A list of all pages. `base_path` is empty or begins with a slash."""
    links = "\n".join(
        f'      <li><a href="{escape(base_path + path)}">{title}</a><code>{path}</code></li>'
        for path, title in PAGES
    )
    return f"""<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>Headwater: {escape(server_name)}</title>
    <style>{_STYLE}
    </style>
  </head>
  <body>
    <h1>Headwater <small>{__version__}, speaks NATS {nats_version}</small></h1>
    <p>{escape(server_name)}</p>
    <ul>
{links}
    </ul>
  </body>
</html>
""".encode()
