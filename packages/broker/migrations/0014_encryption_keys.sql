-- Fingerprints of the keys that sealed what is stored. A start without one of them stops, because it could not open its rows. `active`
-- seals, `previous` only opens, `retired` has sealed nothing that is left.

create table encryption_keys (
  fingerprint text primary key check (fingerprint ~ '^[0-9a-f]{16}$'),
  state text not null check (state in ('active', 'previous', 'retired')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
