-- Answers of calls with an Idempotency-Key, for a day. The row commits with the effect, so a repeated call either did nothing yet or is
-- answered from here. Answers are sealed; of those that held a secret only the id of the created resource is stored.

-- An action that calls the network commits an in-progress row before the call: it has a lease and no answer yet. After the lease the
-- key may run again.
create table idempotency_keys (
  scope text not null,
  key text not null check (char_length(key) between 1 and 255),
  -- What the sealed answer is bound to.
  id uuid not null constraint unique_idempotency_id unique,
  body_hash text not null,
  status smallint,
  body_sealed bytea,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  lease_until timestamptz,
  primary key (scope, key),
  constraint idempotency_keys_state check ((lease_until is null) = (body_sealed is not null and status is not null))
);
create index idempotency_keys_by_end on idempotency_keys (expires_at);
alter table idempotency_keys alter column body_sealed set storage external; -- ciphertext does not compress
