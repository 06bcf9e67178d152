-- Failed orders are few among the finished ones; a list of them must not read past all that succeeded.
create index concurrently if not exists work_order_log_failed on work_order_log (completed_at desc, id desc) where not success;
