-- Retargeting without a lock that all changes share (docs/decisions/0028 proves the scheme). Every transaction acquires locks in this order:
--   agent (advisory) → stack (advisory) → generators → registrations → gates → stacks → agents → agent_targets by (stack, agent)
--   → agent_stack_status by (stack, agent) → stack_summary by (stack, slot).

-- Gates. A change of an agent and a change of a stack that concern the same label or annotation must not overlap, or each would miss what
-- the other adds; two agents, or two stacks, may. LOCK TABLE has such a pair of modes: ROW EXCLUSIVE and SHARE each permit themselves and
-- exclude the other. The tables stay empty; a label or annotation belongs to one of them by its hash.
do $$
begin
  for gate in 0..15 loop
    execute format('create table target_gate_%s ()', gate);
  end loop;
end $$;
create function enter_target_gates(lock_mode text, keys text[]) returns void language plpgsql set search_path from current as $$
declare
  gate int;
begin
  for gate in select distinct ('x' || left(md5(k), 1))::bit(4)::int from unnest(keys) as k order by 1 loop
    execute format('lock table target_gate_%s in %s mode', gate, lock_mode);
  end loop;
end $$;

-- `changed_keys`: those that this transaction adds or removes ('l' || label, 'a' || key || '=' || value).
create function enter_gates_of_agent(of_agent uuid, changed_keys text[]) returns void language plpgsql set search_path from current as $$
begin
  perform enter_target_gates('row exclusive', changed_keys || array(
    select 'l' || label from agent_labels where agent_id = of_agent
    union all select 'a' || key || '=' || value from agent_annotations where agent_id = of_agent));
end $$;

-- The stack stays live until the transaction ends.
create function enter_gates_of_stack(of_stack uuid, changed_keys text[]) returns void language plpgsql set search_path from current as $$
begin
  perform enter_target_gates('share', changed_keys || array(
    select 'l' || label from stack_labels where stack_id = of_stack
    union all select 'a' || key || '=' || value from stack_annotations where stack_id = of_stack));
  perform from stacks where id = of_stack and deleted_at is null for key share;
  if not found then
    raise exception 'no such stack' using errcode = 'BK006';
  end if;
end $$;

-- A difference between the targets that exist and those that should: `id` null begins, `is_ended` ends, else the reasons change.
create type target_change as (id uuid, agent_id uuid, stack_id uuid, by_label boolean, by_annotation boolean, is_ended boolean);

-- Locks everything that the triggers write before the first row changes: ending and beginning targets add to the same counts.
create function write_targets(changes target_change[]) returns void language plpgsql set search_path from current as $$
begin
  perform from agent_targets t where t.id in (select c.id from unnest(changes) c) order by t.stack_id, t.agent_id for update;
  perform from agent_stack_status s where (s.agent_id, s.stack_id) in (select c.agent_id, c.stack_id from unnest(changes) c)
    order by s.stack_id, s.agent_id for no key update;
  insert into stack_summary (stack_id, slot, object_id)
    select distinct c.stack_id, summary_slot(c.agent_id), k.head_object_id from unnest(changes) c join stacks k on k.id = c.stack_id
    where c.id is null order by 1, 2 on conflict do nothing;
  perform from stack_summary m where (m.stack_id, m.slot) in (select c.stack_id, summary_slot(c.agent_id) from unnest(changes) c)
    order by m.stack_id, m.slot for no key update;
  delete from agent_targets t using unnest(changes) c where t.id = c.id and c.is_ended;
  insert into agent_targets (id, agent_id, stack_id, by_label, by_annotation)
    select gen_random_uuid(), c.agent_id, c.stack_id, c.by_label, c.by_annotation from unnest(changes) c where c.id is null;
  update agent_targets t set by_label = c.by_label, by_annotation = c.by_annotation from unnest(changes) c where t.id = c.id and not c.is_ended;
end $$;

-- The caller holds the agent's advisory lock and its gates. KEY SHARE keeps stacks that begin live: deletion takes FOR UPDATE.
create function retarget_agent(of_agent uuid, targets_max int) returns void language plpgsql set search_path from current as $$
declare
  changes target_change[];
  live uuid[];
begin
  changes := array(
    with matches as (
      select s.stack_id, true as by_label, false as by_annotation from agent_labels a join stack_labels s using (label) where a.agent_id = of_agent
      union all
      select s.stack_id, false, true from agent_annotations a join stack_annotations s using (key, value) where a.agent_id = of_agent
      union all
      select t.stack_id, false, false from agent_targets t where t.agent_id = of_agent and t.explicit),
    wanted as (
      select m.stack_id, bool_or(m.by_label) as by_label, bool_or(m.by_annotation) as by_annotation
      from matches m join stacks k on k.id = m.stack_id and k.deleted_at is null
      join agents g on g.id = of_agent and g.deleted_at is null
      join agent_generator_registrations r on r.agent_id = of_agent and r.generator_id = k.generator_id
      group by m.stack_id)
    select row(t.id, of_agent, coalesce(w.stack_id, t.stack_id), coalesce(w.by_label, false), coalesce(w.by_annotation, false), w.stack_id is null)::target_change
    from wanted w full join (select * from agent_targets where agent_id = of_agent) t on t.stack_id = w.stack_id
    where t.id is null or w.stack_id is null or (w.by_label, w.by_annotation) <> (t.by_label, t.by_annotation));
  if cardinality(changes) = 0 then
    return;
  end if;
  live := array(select k.id from stacks k where k.id in (select c.stack_id from unnest(changes) c where c.id is null) and k.deleted_at is null
                order by k.id for key share);
  perform from agents where id = of_agent for key share;
  perform write_targets(array(select c from unnest(changes) c where c.id is not null or c.stack_id = any(live)));
  if (select count(*) from agent_targets where agent_id = of_agent) > targets_max then
    raise exception 'an agent takes at most % stacks', targets_max using errcode = 'BK005';
  end if;
end $$;

-- The caller holds the stack's advisory lock and its gates. KEY SHARE keeps agents as they are: deletion, silence and return take FOR UPDATE.
create function retarget_stack(of_stack uuid) returns void language plpgsql set search_path from current as $$
declare
  changes target_change[];
  live uuid[];
begin
  changes := array(
    with matches as (
      select a.agent_id, true as by_label, false as by_annotation from stack_labels s join agent_labels a using (label) where s.stack_id = of_stack
      union all
      select a.agent_id, false, true from stack_annotations s join agent_annotations a using (key, value) where s.stack_id = of_stack
      union all
      select t.agent_id, false, false from agent_targets t where t.stack_id = of_stack and t.explicit),
    wanted as (
      select m.agent_id, bool_or(m.by_label) as by_label, bool_or(m.by_annotation) as by_annotation
      from matches m join agents g on g.id = m.agent_id and g.deleted_at is null
      join stacks k on k.id = of_stack and k.deleted_at is null
      join agent_generator_registrations r on r.agent_id = m.agent_id and r.generator_id = k.generator_id
      group by m.agent_id)
    select row(t.id, coalesce(w.agent_id, t.agent_id), of_stack, coalesce(w.by_label, false), coalesce(w.by_annotation, false), w.agent_id is null)::target_change
    from wanted w full join (select * from agent_targets where stack_id = of_stack) t on t.agent_id = w.agent_id
    where t.id is null or w.agent_id is null or (w.by_label, w.by_annotation) <> (t.by_label, t.by_annotation));
  if cardinality(changes) = 0 then
    return;
  end if;
  live := array(select a.id from agents a where a.id in (select c.agent_id from unnest(changes) c) and a.deleted_at is null order by a.id for key share);
  perform write_targets(array(select c from unnest(changes) c where c.id is not null or c.agent_id = any(live)));
end $$;

-- A report locks what it will write before its first row, each step by what is committed by then. One statement would read by one instant
-- and miss the row that the report before it has just made. A transaction that ends targets takes them FOR UPDATE.
create function lock_report(agent_ids uuid[], stack_ids uuid[]) returns void language plpgsql set search_path from current as $$
begin
  perform from agents a where a.id = any(agent_ids) order by a.id for no key update;
  perform from agent_targets t where (t.agent_id, t.stack_id) in (select * from unnest(agent_ids, stack_ids))
    order by t.stack_id, t.agent_id for no key update;
  perform from agent_stack_status s where (s.agent_id, s.stack_id) in (select * from unnest(agent_ids, stack_ids))
    order by s.stack_id, s.agent_id for no key update;
  perform from stack_summary m where (m.stack_id, m.slot) in (select p.stack_id, summary_slot(p.agent_id) from unnest(agent_ids, stack_ids) as p (agent_id, stack_id))
    order by m.stack_id, m.slot for no key update;
end $$;
