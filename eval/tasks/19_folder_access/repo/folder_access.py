"""Who may do what in a folder."""

RIGHTS_OF_ROLE = {
    "guest": {"read"},
    "author": {"read", "write"},
    "owner": {"read", "write", "share", "delete"},
}


class AccessDenied(PermissionError):
    """Somebody lacks a right."""


class Folder:
    """A folder with the roles of the people who have access to it."""

    def __init__(self, name: str, owner: str) -> None:
        self.name = name
        self._roles = {owner: "owner"}

    def rights_of(self, person: str) -> set[str]:
        """Return the rights of a person; strangers have none."""
        return RIGHTS_OF_ROLE.get(self._roles.get(person, ""), set())

    def allows(self, person: str, *rights: str) -> bool:
        """Tell whether a person has every one of the given rights."""
        granted = self.rights_of(person)
        return any(right in granted for right in rights)

    def demand(self, person: str, *rights: str) -> None:
        """Raise AccessDenied unless a person has every one of the given rights."""
        if not self.allows(person, *rights):
            raise AccessDenied(f"{person} may not {' and '.join(rights)} in {self.name}")

    def share(self, by: str, person: str, role: str) -> None:
        """Give a person a role; the one who does it needs the right to share."""
        self.demand(by, "share")
        if role not in RIGHTS_OF_ROLE:
            raise ValueError(f"unknown role: {role}")
        self._roles[person] = role
