from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("dragoman-client")
except PackageNotFoundError:  # read from a folder that is not installed
    VERSION = "0"
