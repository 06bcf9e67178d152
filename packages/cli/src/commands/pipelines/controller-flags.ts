// Flags of `brokkr pipelines`. Those of the public controller keep their names; each stands for one setting of the program. Pure.
import { CliError, exitCodes } from '../../output.ts'

type Form = 'text' | 'switch' | 'seconds' | 'address' | 'encoding'

interface Flag {
  readonly name: string
  readonly setting: string
  readonly form: Form
  readonly description: string
}

const flag = (name: string, setting: string, form: Form, description: string): Flag => ({ name, setting, form, description })

export const controllerFlags: readonly Flag[] = [
  flag('enable-level-triggered', 'pipelines.enable_level_triggered', 'switch', 'observe applications instead of waiting for hooks'),
  flag('leader-elect', 'pipelines.leader_elect', 'switch', 'let one process act at a time'),
  flag('metrics-bind-address', 'pipelines.metrics_port', 'address', 'address of the metrics, such as :8080'),
  flag('health-probe-bind-address', 'pipelines.health_probe_port', 'address', 'address of the probes, such as :8081'),
  flag('promotion-hook-bind-address', 'pipelines.promotion_hook_port', 'address', 'address of hooks and approvals, such as :8082'),
  flag('promotion-hook-rate-limit', 'pipelines.promotion_hook_rate_limit', 'text', 'calls per client and interval'),
  flag('promotion-hook-rate-limit-interval', 'pipelines.promotion_hook_rate_limit_interval', 'seconds', 'interval of the rate limit'),
  flag('promotion-retry-delay', 'pipelines.promotion_retry_delay', 'seconds', 'pause before the second attempt'),
  flag('promotion-retry-max-delay', 'pipelines.promotion_retry_max_delay', 'seconds', 'longest pause between two attempts'),
  flag('promotion-retry-threshold', 'pipelines.promotion_retry_threshold', 'text', 'attempts of pipelines that name none'),
  flag('events-addr', 'pipelines.events_addr', 'text', 'address that takes Flux events'),
  flag('broker-url', 'pipelines.broker_url', 'text', 'address of the broker for stack strategies'),
  flag('install-crds', 'pipelines.install_crds', 'switch', 'install the definitions of Pipeline and Promotion at the start'),
  flag('no-cross-namespace-refs', 'pipelines.no_cross_namespace_refs', 'switch', 'refuse clusterRefs to other namespaces'),
  flag('kubeconfig', 'pipelines.kubeconfig_path', 'text', 'kubeconfig of the management cluster'),
  flag('workers', 'pipelines.workers', 'text', 'pipelines that are passed over at the same time'),
  flag('resync', 'pipelines.resync', 'seconds', 'pause between two passes over all pipelines'),
  flag('git-cache-dir', 'pipelines.git_cache_dir', 'text', 'directory of the cache repositories'),
  flag('git-timeout', 'pipelines.git_timeout', 'seconds', 'time limit of one run of git'),
  flag('git-max-bytes', 'pipelines.git_max_bytes', 'text', 'size limit of one cache repository'),
  flag('git-allowed-hosts', 'pipelines.git_allowed_hosts', 'text', 'hosts of repositories, comma-separated'),
  flag('allow-insecure-git', 'pipelines.allow_insecure_git', 'switch', 'allow http and loopback addresses for Git and forges'),
  flag('allow-legacy-signature', 'pipelines.allow_legacy_signature', 'switch', 'accept signatures of the body alone'),
  flag('allow-unsigned-promotion', 'pipelines.allow_unsigned_promotion', 'switch', 'accept events without a signature'),
  flag('trusted-proxies', 'pipelines.trusted_proxies', 'text', 'networks of proxies, comma-separated'),
  flag('tls-cert', 'pipelines.tls_cert_file', 'text', 'certificate of the hooks (PEM)'),
  flag('tls-key', 'pipelines.tls_key_file', 'text', 'key of the hooks (PEM)'),
  flag('log-level', 'log.level', 'text', 'lowest level of log lines'),
  flag('log-encoding', 'log.format', 'encoding', 'json or console'),
]

/** `--name <value>`; a switch may stand alone or have true or false. */
export const toOptionSyntax = ({ name, form }: Flag): string => `--${name} ${form === 'switch' ? '[true|false]' : '<value>'}`

/** Settings by path from the options that commander parsed. */
export function toSettings(options: Readonly<Record<string, string | boolean | undefined>>): Record<string, unknown> {
  const settings: Record<string, unknown> = {}
  for (const each of controllerFlags) {
    const value = toText(each, options[toOptionKey(each.name)])
    if (value !== null) Object.assign(settings, toSetting(each, value))
  }
  return settings
}

/** Commander stores `--no-x` under the name of `x`. */
const toOptionKey = (name: string): string => name.replace(negation, '').replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())

const negation = /^no-/

/** Null: the flag is not set. Commander stores false for `--no-x` alone, and true where `--no-x` is absent. */
function toText({ name }: Flag, value: string | boolean | undefined): string | null {
  if (typeof value === 'string') return value
  return value === !negation.test(name) ? 'true' : null
}

function toSetting({ name, setting, form }: Flag, value: string): Record<string, unknown> {
  if (form === 'address') return toAddress(name, setting, value)
  if (form === 'encoding') return { [setting]: value === 'console' ? 'pretty' : value }
  return { [setting]: form === 'seconds' ? toSeconds(name, value) : value }
}

/** All ports are opened on one address, so a host of one flag holds for all. */
function toAddress(name: string, setting: string, value: string): Record<string, unknown> {
  const [, host = '', port = ''] = /^(.*):(\d{1,5})$/.exec(value) ?? []
  if (port === '') throw usage(name, value, 'is no address: write :8080 or 127.0.0.1:8080')
  return { [setting]: Number(port), ...(host === '' ? {} : { 'pipelines.bind_host': host.replace(/^\[|\]$/g, '') }) }
}

const unitSeconds: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3600 }

/** `30`, `30s`, `1m30s`. */
function toSeconds(name: string, value: string): number {
  if (/^\d+(\.\d+)?$/.test(value)) return Number(value)
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(value)) throw usage(name, value, 'is no length of time: write 30, 30s or 1m30s')
  const parts = [...value.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)]
  return parts.reduce((sum, [, digits, unit]) => sum + Number(digits) * (unitSeconds[unit ?? ''] ?? 0), 0)
}

const usage = (name: string, value: string, problem: string): CliError =>
  new CliError(`--${name}: "${value}" ${problem}`, { next: 'brokkr pipelines --help', exitCode: exitCodes.usage })
