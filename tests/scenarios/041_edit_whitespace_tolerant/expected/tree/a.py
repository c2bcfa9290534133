class A:
    def one(self):
        if self:
            value = 2
            return value
