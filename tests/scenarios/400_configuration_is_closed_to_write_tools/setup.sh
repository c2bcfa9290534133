mkdir shared
mv flows shared/flows
ln -s shared/flows flows
