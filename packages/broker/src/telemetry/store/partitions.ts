// Hourly partitions of telemetry.
import { count, one, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

/** Creates missing partitions of this hour and the next two. */
export const make = count(
  'telemetry_partitions.make',
  () => `select make_telemetry_partitions('agent_k8s_events', now(), 2), make_telemetry_partitions('agent_pod_logs', now(), 2)`,
)

/** Drops the partitions that ended before the retention; `evicted` is approximate. */
export const dropOld = one(
  'telemetry_partitions.dropOld',
  z.object({ dropped: z.int(), evicted: z.int() }),
  (p: Slots<{ parent: string; retention_seconds: number }>) => `
  select dropped, evicted from drop_telemetry_partitions(${p.parent}::text, now() - ${p.retention_seconds}::float8 * interval '1 second')`,
)
