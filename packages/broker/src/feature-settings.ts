// Settings of single features: sign-in, PAKs, diagnostics, work orders, traces. config.ts adds them to their sections.
import { defaultPakForm } from '@brokkr/contract/auth/pak.ts'
import { count, optional, seconds, setting } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'

// Settings of sign-in links and of the form of PAKs.

const letters = (charsMax: number) =>
  z.string().regex(new RegExp(`^[A-Za-z0-9]{1,${charsMax}}$`), `must be 1 to ${charsMax} letters and digits`)

/** Extends the section `broker`. */
export const loginSettings = {
  login_link_seconds: setting(seconds.min(1).max(3600), 300, { description: 'Time for which a sign-in link is valid, at most one hour.' }),
}

/** Form of new PAKs. PAKs in the default form stay valid, because agents generate theirs in it. */
export const pakSettings = {
  prefix: setting(letters(32), defaultPakForm.prefix, { description: 'Prefix of new PAKs.' }),
  short_token_prefix: setting(letters(16), defaultPakForm.short_token_prefix, { description: 'Beginning of the short part of new PAKs.' }),
  short_token_length: setting(count.min(5).max(64), defaultPakForm.short_token_length, {
    description: 'Length of the short part of new PAKs with its prefix; at least 4 more than the prefix.',
    unit: 'characters',
  }),
  long_token_length: setting(count.min(16).max(64), defaultPakForm.long_token_length, {
    description: 'Random bytes in the long part of new PAKs.',
    unit: 'bytes',
  }),
}

export interface PakSettings {
  readonly short_token_prefix: string
  readonly short_token_length: number
}

/** Pure. */
export function pakProblems({ short_token_prefix: prefix, short_token_length: length }: PakSettings): { path: string; problem: string }[] {
  if (length >= prefix.length + 4) return []
  return [
    { path: 'pak.short_token_length', problem: `must be at least ${prefix.length + 4}: the prefix ${prefix} and 4 random characters` },
  ]
}

/** Settings of diagnostics. They extend the section `broker`. */
export const diagnosticSettings = {
  diagnostic_cleanup_interval_seconds: setting(seconds, 900, {
    description: 'Interval of the task that ends expired diagnostic requests and deletes old ones.',
    hot: true,
  }),
  diagnostic_max_age_hours: setting(z.number().positive().max(8760), 1, {
    description: 'Time after which ended diagnostic requests are deleted, with their results.',
    hot: true,
  }),
}

/** Settings of work orders. They extend the section `broker`. */
export const workOrderSettings = {
  work_order_maintenance_interval_seconds: setting(seconds, 10, {
    description: 'Maximum interval of the task that ends timed-out claims and makes due retries of work orders pending.',
    hot: true,
  }),
  work_order_log_retention_days: setting(z.number().positive().max(36_500), 365, {
    description: 'Time after which entries of the work-order log are deleted, with their output.',
    hot: true,
  }),
}

// Settings of traces. Those of `telemetry.broker` override those of `telemetry`.

const url = z.url({ protocol: /^https?$/ })
const name = z.string().min(1).max(255)
const rate = z.number().min(0).max(1)

export const traceSettings = {
  enabled: setting(z.boolean(), false, { description: 'Exports traces of requests by OTLP.' }),
  otlp_endpoint: setting(url, 'http://localhost:4317', {
    description: 'Address at which a collector accepts OTLP over HTTP; /v1/traces is appended. Collectors usually do so on port 4318.',
  }),
  service_name: setting(name, 'brokkr-broker', { description: 'Service name in traces.' }),
  sampling_rate: setting(rate, 0.1, { description: 'Share of requests that are traced.', unit: 'share of 1' }),
}

export const traceOverrides = {
  enabled: optional(z.boolean(), { description: 'Overrides telemetry.enabled for the broker.' }),
  otlp_endpoint: optional(url, { description: 'Overrides telemetry.otlp_endpoint for the broker.' }),
  service_name: optional(name, { description: 'Overrides telemetry.service_name for the broker.' }),
  sampling_rate: optional(rate, { description: 'Overrides telemetry.sampling_rate for the broker.', unit: 'share of 1' }),
}
