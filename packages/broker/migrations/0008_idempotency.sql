-- Answers of calls that carried an Idempotency-Key, for a day: the row commits with the effect, so a call that is tried again
-- either did nothing yet or is answered from here. Answers hold whatever the operation answers and are sealed; those that
-- held a secret keep only the id of what was made.

create table idempotency_keys (
  scope text not null,
  key text not null check (char_length(key) between 1 and 255),
  -- What the sealed answer is bound to.
  id uuid not null constraint unique_idempotency_id unique,
  body_hash text not null,
  status smallint not null,
  body_sealed bytea not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  primary key (scope, key)
);
create index idempotency_keys_by_end on idempotency_keys (expires_at);
alter table idempotency_keys alter column body_sealed set storage external; -- ciphertext does not compress
