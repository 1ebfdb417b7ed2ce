"""Let the learner's JupyterLab print one address; its other settings are in the .json files."""

import logging
import re

c = get_config()  # noqa: F821


class OneAddress(logging.Filter):
    """Replace the server's message, which lists a file and several addresses, by one address."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the message with the addresses, and let every record pass."""
        message = record.getMessage()
        if "To access the server" in message:
            # The last address is 127.0.0.1, which also works on a container's host.
            address = re.findall(r"http\S+", message)[-1]
            record.msg = f"JupyterLab runs until Ctrl-C, at this address:\n{address}"
            record.args = ()
        return True


c.ServerApp.log_format = "%(message)s"
c.ServerApp.logging_config = {
    "filters": {"one-address": {"()": OneAddress}},
    "handlers": {"console": {"filters": ["one-address"]}},
}
