-- Manifests of up to some 3.5 KB stay in their row instead of a side table: most have 1 to 3 KB, and reading 200 of them by id costs
-- PostgreSQL a third less (5.0 → 3.4 ms of CPU). Rows that exist stay where they are.
alter table deployment_objects set (toast_tuple_target = 4096);

-- There is one, and every new agent is registered with it: it must not be looked for among all generators.
create index generators_system on generators (id) where is_system;
