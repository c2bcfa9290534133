"""The pure heart: data and functions from data to data. No input or output, no clock, no event loop."""
