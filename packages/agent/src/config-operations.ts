// Settings of the work that the broker requests: work orders, diagnostics, plans, webhook deliveries, telemetry.
import { type ConfigOf, count, seconds, setting } from '@brokkr/runtime/config/settings.ts'
import { isCidr } from '@brokkr/runtime/http-client/address.ts'
import { z } from 'zod'

const interval = seconds.min(0.01)
const network = z.string().refine(isCidr, 'must be a network such as 10.0.0.0/8')

export const operationsTable = {
  work_order_types: setting(z.array(z.enum(['build', 'custom', 'flow'])), ['build', 'custom', 'flow'], {
    description: 'Types of work orders that the agent claims. An empty list disables work orders.',
  }),
  work_order_concurrency: setting(count.min(1).max(100), 1, {
    description: 'Maximum number of work orders that run at the same time.',
    unit: 'work orders',
  }),
  work_order_check_seconds: setting(interval, 5, { description: 'Interval between two reads of a running Job or BuildRun.' }),
  build_timeout: setting(interval, 900, { description: 'Time limit of one build before its BuildRun is canceled.' }),
  work_order_cleanup_after: setting(interval, 86_400, {
    description: 'Age of an ended work order after which its Jobs and BuildRuns are deleted.',
  }),
  diagnostics_interval: setting(interval, 10, { description: 'Interval between two reads of diagnostic requests.' }),
  plans_interval: setting(interval, 10, { description: 'Interval between two reads of plans that wait for this agent.' }),
  webhook_delivery: setting(z.boolean(), true, {
    description: 'Delivers webhooks that the broker leaves to agents, for receivers in private networks.',
  }),
  webhook_interval: setting(interval, 10, { description: 'Interval between two reads of pending webhook deliveries.' }),
  webhook_allowed_cidrs: setting(z.array(network), [], {
    description:
      'Networks that webhook deliveries may reach although they are refused by default: loopback, link-local and metadata addresses. The API server and denied networks stay refused.',
  }),
  webhook_denied_cidrs: setting(z.array(network), [], {
    description: 'Networks that webhook deliveries must not reach. The API server is always denied.',
  }),
  kube_events: setting(z.boolean(), true, { description: 'Sends Kubernetes events about members of stacks as telemetry.', hot: true }),
  pod_logs: setting(z.boolean(), true, {
    description: 'Sends log lines of pods that have the annotation brokkr.io/stream-logs: "true".',
    hot: true,
  }),
  pod_log_lines_per_second: setting(count.min(1), 100, {
    description: 'Maximum rate of log lines per container. Lines above it are dropped and counted.',
    unit: 'lines per second',
    hot: true,
  }),
  kube_event_uid_cache_cap: setting(count.min(1), 10_000, {
    description: 'Maximum number of objects whose stack is cached for telemetry.',
    unit: 'objects',
    hot: true,
  }),
  telemetry_interval: setting(interval, 1, { description: 'Interval between two telemetry batches while there is data.' }),
  inventory_interval: setting(interval, 5, { description: 'Interval between two reports of changed resource trees.' }),
}
export type OperationsConfig = ConfigOf<typeof operationsTable>
