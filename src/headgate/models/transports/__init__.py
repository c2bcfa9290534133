"""How tools are called: each transport is a model around a model, and nothing above knows which one."""
