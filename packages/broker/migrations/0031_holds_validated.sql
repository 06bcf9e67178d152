-- Validates the constraint of 0030 without blocking writers.
alter table stacks validate constraint stacks_hold_complete;
