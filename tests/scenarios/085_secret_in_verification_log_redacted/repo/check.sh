cat ./.e*; test -e ready
