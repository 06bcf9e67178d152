// The settings of the pipelines program: one table with their defaults. Every interval is in seconds and may be a fraction.
import { Window } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { checkWindow } from '@brokkr/contract/pipelines/validate.ts'
import { type ConfigOf, count, optional, port, seconds, secretList, setting } from '@brokkr/runtime/config/settings.ts'
import { isCidr } from '@brokkr/runtime/http-client/address.ts'
import { z } from 'zod'
import type { ControllerSettings } from './controller/controller.ts'
import type { HooksSettings } from './hooks/deps.ts'

const interval = seconds.min(0.01)

export const pipelinesTable = {
  pipelines: {
    enable_level_triggered: setting(z.boolean(), true, {
      description: 'Trigger of Pipelines that name none: true observes applications (Watch), false waits for hooks (Webhook).',
    }),
    leader_elect: setting(z.boolean(), true, { description: 'Lets one process act at a time, by the Lease `brokkr-pipelines`.' }),
    lease_seconds: setting(interval.min(1), 15, { description: 'Duration of the Lease; a standby takes over after it.' }),
    events_addr: optional(z.url({ protocol: /^https?$/ }), { description: 'Address that takes Flux events of the notification strategy.' }),
    promotion_retry_delay: setting(interval, 5, {
      description: 'Pause before the second attempt of a promotion; it doubles with each further one.',
    }),
    promotion_retry_max_delay: setting(interval, 600, { description: 'Longest pause between two attempts.' }),
    promotion_retry_threshold: setting(count, 10, {
      description: 'Attempts of Pipelines that name none; 0 still makes one.',
      unit: 'attempts',
    }),
    promotion_settle: setting(seconds, 300, {
      description: 'How long a target that reached the revision by itself delays a promotion of the others.',
    }),
    windows: setting(z.array(Window).max(50), [], { description: 'Freeze windows that hold for every Pipeline.' }),
    no_cross_namespace_refs: setting(z.boolean(), false, { description: 'Refuses clusterRefs to other namespaces.' }),
    install_crds: setting(z.boolean(), false, { description: 'Installs the definitions of Pipeline and Promotion at the start.' }),
    git_cache_dir: optional(z.string().min(1), {
      description: 'Directory of the cache repositories; default: a private temporary directory.',
    }),
    git_timeout: setting(interval, 60, { description: 'Time limit of one run of git.' }),
    git_max_bytes: setting(count.min(1 << 20), 1 << 30, { description: 'Size limit of one cache repository.', unit: 'bytes' }),
    allow_insecure_git: setting(z.boolean(), false, {
      description: 'Allows http and loopback, link-local and metadata addresses for Git and forges: for tests and trials.',
    }),
    git_allowed_hosts: setting(z.array(z.string().min(1).max(253)).max(100), [], {
      description: 'Hosts of repositories, `*.example.com` for all below a name; empty: any host.',
    }),
    broker_url: optional(z.url({ protocol: /^https?$/ }), { description: 'Address of the broker for stack strategies that name none.' }),
    stack_poll: setting(interval, 10, { description: 'Pause between two reads of the stacks that Pipelines use.' }),
    pull_request_poll: setting(interval, 30, { description: 'Pause between two reads of an open pull request.' }),
    resync: setting(interval, 300, { description: 'Pause between two passes over all Pipelines.' }),
    workers: setting(count.min(1).max(100), 8, { description: 'Pipelines that are passed over at the same time.', unit: 'Pipelines' }),
    kubeconfig_path: optional(z.string().min(1), {
      description: 'Kubeconfig of the management cluster; default: the identity of the pod, else `KUBECONFIG`.',
    }),
    namespace: optional(z.string().min(1).max(63), {
      description: 'Namespace of the Lease and of used nonces; default: the namespace of the pod.',
    }),
    metrics_port: setting(port, 8080, { description: 'Port of the metrics.', unit: 'port' }),
    health_probe_port: setting(port, 8081, { description: 'Port of the probes.', unit: 'port' }),
    promotion_hook_port: setting(port, 8082, {
      description: 'Port of hooks, approvals and the routes of console and command line.',
      unit: 'port',
    }),
    promotion_hook_rate_limit: setting(count.min(1), 20, {
      description: 'Calls per client and interval over the routes that need no identity.',
      unit: 'calls',
    }),
    promotion_hook_rate_limit_interval: setting(interval, 30, { description: 'Interval of the rate limit.' }),
    promotion_hook_wait: setting(seconds.max(60), 10, { description: 'How long a hook waits for the outcome before it answers 202.' }),
    trusted_proxies: setting(z.array(z.string().refine(isCidr, 'must be an address or a network such as 10.0.0.0/8')).max(100), [], {
      description: 'Networks of proxies whose `X-Forwarded-For` and `X-Real-IP` name the client.',
    }),
    allow_legacy_signature: setting(z.boolean(), false, {
      description: 'Accepts events that start runs with a signature of the body alone: for a change-over.',
    }),
    allow_unsigned_promotion: setting(z.boolean(), false, {
      description: 'Accepts events that start runs without a signature where the Pipeline names no Secret: for a change-over.',
    }),
    vouching_keys: secretList({
      description: 'Keys whose holders name the person in `X-Approver`: the key of the broker.',
      schema: z.string().min(32),
    }),
    tls_cert_file: optional(z.string().min(1), { description: 'PEM file with the certificate of the hooks; needs `tls_key_file`.' }),
    tls_key_file: optional(z.string().min(1), { description: 'PEM file with the key of the hooks; needs `tls_cert_file`.' }),
    bind_host: setting(z.string().min(1), '0.0.0.0', { description: 'Address on which all ports are opened.' }),
    shutdown_seconds: setting(interval, 20, { description: 'Time for attempts under way to end after SIGTERM.' }),
  },
  log: {
    level: setting(z.enum(['trace', 'debug', 'info', 'warn', 'error']), 'info', {
      description: 'Lowest level of log lines that are written.',
    }),
    format: setting(z.enum(['json', 'pretty']), 'json', { description: 'Format of log lines: json for machines, pretty for terminals.' }),
  },
}
export type PipelinesConfig = ConfigOf<typeof pipelinesTable>

export function checkPipelinesConfig({ pipelines }: PipelinesConfig): { path: string; problem: string }[] {
  const windows = pipelines.windows.flatMap((window, index) =>
    checkWindow(window, `pipelines.windows[${index}]`).map(({ path, message }) => ({ path, problem: message })),
  )
  const isHalf = (pipelines.tls_cert_file === null) !== (pipelines.tls_key_file === null)
  return [...windows, ...(isHalf ? [{ path: 'pipelines.tls_cert_file', problem: 'needs pipelines.tls_key_file, and the reverse' }] : [])]
}

export function toControllerSettings({ pipelines }: PipelinesConfig): ControllerSettings {
  return {
    decide: {
      defaultTrigger: pipelines.enable_level_triggered ? 'Watch' : 'Webhook',
      attempts: pipelines.promotion_retry_threshold,
      retryMaxMs: pipelines.promotion_retry_max_delay * 1000,
      promotionSettleMs: pipelines.promotion_settle * 1000,
      effectPollMs: pipelines.pull_request_poll * 1000,
      blockPollMsMax: 10 * 60_000,
      blockedRetryMs: 30 * 60_000,
      windows: pipelines.windows,
    },
    retry: { baseMs: pipelines.promotion_retry_delay * 1000, maxMs: pipelines.promotion_retry_max_delay * 1000 },
    clusters: { probeEveryMs: 20_000, staleMs: 60_000, collectAfterMs: 2_000, rotationMs: 60_000 },
    passBackoff: { baseMs: 200, maxMs: 60_000 },
    effectReadFloorMs: 10_000,
    resyncMs: pipelines.resync * 1000,
    workers: pipelines.workers,
    noCrossNamespaceRefs: pipelines.no_cross_namespace_refs,
    cleaner: { everyMs: 3_600_000, ageMs: 3_600_000 },
    stackPollMs: pipelines.stack_poll * 1000,
    brokerUrl: pipelines.broker_url,
  }
}

export function toHooksSettings(
  { pipelines }: PipelinesConfig,
  given: Pick<HooksSettings, 'namespace' | 'tls' | 'vouchingKeys'>,
): HooksSettings {
  return {
    ...given,
    host: pipelines.bind_host,
    port: pipelines.promotion_hook_port,
    rateLimit: { calls: pipelines.promotion_hook_rate_limit, windowMs: pipelines.promotion_hook_rate_limit_interval * 1000 },
    trustedProxies: pipelines.trusted_proxies,
    allowLegacySignature: pipelines.allow_legacy_signature,
    allowUnsignedPromotion: pipelines.allow_unsigned_promotion,
    waitMs: pipelines.promotion_hook_wait * 1000,
    policy: {
      defaultTrigger: pipelines.enable_level_triggered ? 'Watch' : 'Webhook',
      attempts: pipelines.promotion_retry_threshold,
    },
  }
}
