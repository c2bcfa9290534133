"""The wire formats: HTTP, and the APIs of OpenAI, Anthropic and Ollama."""
