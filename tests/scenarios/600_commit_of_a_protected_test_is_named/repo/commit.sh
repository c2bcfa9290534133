#!/bin/sh
exec git -c user.name=T -c user.email=t@localhost -c commit.gpgsign=false commit -q "$@"
