"""A Jupyter kernel as Jupyter Server starts it for a notebook: its path is in JPY_SESSION_NAME."""

import os
from contextlib import contextmanager
from queue import Empty

from jupyter_client import KernelManager

from tests import patience


class Kernel:
    """Runs code and collects what it shows; `kill` is what the system does when memory runs out."""

    def __init__(self, manager):
        self.manager, self.client = manager, manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=patience.COMMAND)

    def begin(self, code):
        return self.client.execute(code)

    def read(self, request, *, until=None):
        """Return the text and HTML that a cell shows, until it ends or one has `until`."""
        shown: list[str] = []
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=patience.COMMAND)
            except Empty:
                raise AssertionError(f"The cell shows nothing more:\n{shown}") from None
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    shown.append(content["text"])
                case "display_data" | "update_display_data" | "execute_result":
                    shown.append(content["data"].get("text/html") or content["data"]["text/plain"])
                case "error":
                    shown.append(f"{content['ename']}: {content['evalue']}")
                case "status" if content["execution_state"] == "idle":
                    return shown
            if until and any(until in text for text in shown):
                return shown

    def run(self, code):
        return self.read(self.begin(code))

    def interrupt(self):
        self.manager.interrupt_kernel()

    def kill(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@contextmanager
def kernel(folder, **environment):
    """Start a kernel in a folder; what it leaves running is killed."""
    manager = KernelManager(kernel_name="python3")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    manager.start_kernel(
        cwd=str(folder), env=variables | {"JPY_SESSION_NAME": str(folder / "work.ipynb")} | environment
    )
    started = Kernel(manager)
    try:
        yield started
    finally:
        if manager.has_kernel:
            started.kill()
