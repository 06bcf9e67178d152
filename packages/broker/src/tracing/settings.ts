// Settings of traces. Those of `telemetry.broker` override those of `telemetry`.
import { optional, setting } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'

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
