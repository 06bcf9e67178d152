-- Lists that show deleted rows too are read in the same order as the others, and as evenly: the indexes over live rows alone do
-- not serve them.

create index agents_with_deleted on agents (name, id);
create index generators_with_deleted on generators (name, id);
create index stacks_with_deleted on stacks (name, id);
