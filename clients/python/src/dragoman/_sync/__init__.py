"""The client without `await`, made from `dragoman/_async`."""
