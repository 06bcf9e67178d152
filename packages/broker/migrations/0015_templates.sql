-- Templates: manifests with parameters. Every change is a new version with its own id, so that a deployment object can name the version it
-- was rendered from. Sources and parameters may contain secrets and are sealed.

create table stack_templates (
  id uuid primary key,
  -- Null: a system template, which every generator may use.
  generator_id uuid constraint stack_templates_generator_id_fkey references generators,
  name varchar(255) not null check (name <> ''),
  description text check (char_length(description) <= 4096),
  version int not null check (version > 0),
  template_sealed bytea not null,
  template_bytes int not null,
  parameters_schema text not null,
  checksum text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
alter table stack_templates alter column template_sealed set storage external; -- ciphertext does not compress
create unique index unique_template_version on stack_templates (generator_id, name, version) nulls not distinct where deleted_at is null;
-- In the order of the list: system templates first, then by generator. Also finds the highest version of a name, deleted ones included.
create index stack_templates_by_owner
  on stack_templates (coalesce(generator_id, '00000000-0000-0000-0000-000000000000'::uuid), name, version);

create table template_labels (
  id uuid primary key,
  template_id uuid not null constraint fk_template_labels_template references stack_templates,
  label varchar(64) not null check (label <> ''),
  created_at timestamptz not null default now(),
  constraint template_labels_template_id_label_key unique (template_id, label)
);
create index template_labels_by_label on template_labels (label, template_id);

create table template_annotations (
  id uuid primary key,
  template_id uuid not null constraint fk_template_annotations_template references stack_templates,
  key varchar(64) not null check (key <> ''),
  value varchar(64) not null check (value <> ''),
  created_at timestamptz not null default now(),
  constraint template_annotations_template_id_key_key unique (template_id, key)
);
create index template_annotations_by_pair on template_annotations (key, value, template_id);

-- Provenance of deployment objects that were rendered from a template.
create table rendered_deployment_objects (
  id uuid primary key,
  deployment_object_id uuid not null constraint unique_rendered_object unique references deployment_objects on delete cascade,
  template_id uuid not null references stack_templates,
  template_version int not null,
  parameters_sealed bytea not null,
  -- The instant that the function now() returned.
  rendered_at timestamptz not null,
  created_at timestamptz not null default now()
);
alter table rendered_deployment_objects alter column parameters_sealed set storage external;

create function feed_templates_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'generator', coalesce(generator_id, '00000000-0000-0000-0000-000000000000'::uuid), 'template', id, 'insert' from new_rows;
  return null;
end $$;
create function feed_templates_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'generator', coalesce(n.generator_id, '00000000-0000-0000-0000-000000000000'::uuid), 'template', n.id, 'update'
    from old_rows o join new_rows n using (id) where n.deleted_at is distinct from o.deleted_at;
  return null;
end $$;
create trigger feed_insert after insert on stack_templates referencing new table as new_rows for each statement execute function feed_templates_insert();
create trigger feed_update after update on stack_templates referencing old table as old_rows new table as new_rows for each statement execute function feed_templates_update();
