APP = 2
