-- Which keys sealed what is stored: fingerprints only. A start without one of them would serve rows it cannot open, so it
-- stops instead. `active` seals, `previous` only opens, `retired` has sealed nothing that is left.

create table encryption_keys (
  fingerprint text primary key check (fingerprint ~ '^[0-9a-f]{16}$'),
  state text not null check (state in ('active', 'previous', 'retired')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
