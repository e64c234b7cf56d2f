"""The options in force."""

from headwater.runtime.sockets.tls import load_context
from headwater.server.configuration.options import Options
from headwater.server.settings import Settings


def test_other_options_bring_their_authenticator_and_the_time_with_them() -> None:
    settings = Settings(Options(), 1, load_context)
    before = settings.authenticator
    options = Options(token="t")
    settings.replace(options, 2)
    assert settings.options is options
    assert settings.loaded_wall_ns == 2
    assert not before.required
    assert settings.authenticator.required
