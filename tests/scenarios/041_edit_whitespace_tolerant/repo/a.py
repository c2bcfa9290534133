class A:
    def one(self):
        if self:
            return 1
