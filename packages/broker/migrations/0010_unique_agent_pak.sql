-- An agent may choose the hash of its own key. Were two live agents to share one, a key would open whichever row is found
-- first: the database refuses the second.

drop index agents_pak;
create unique index unique_agent_pak on agents (pak_hash) where deleted_at is null and pak_hash is not null;
