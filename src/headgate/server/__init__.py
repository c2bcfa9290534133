"""The server: the API, live events and the page for one repository. Needs the extra `server`."""

from headgate.server.running import ServerSettings, serve
