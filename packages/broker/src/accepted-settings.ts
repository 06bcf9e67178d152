// Settings of the first version, and of parts that this release does not have. They are accepted and checked, so that an existing
// configuration starts; those that are set to something else than their default are named in one warning.
import { isDeepStrictEqual } from 'node:util'
import type { LoadedConfig } from '@brokkr/runtime/config/load-config.ts'
import { listSettings, optional, secret, setting } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'

const url = z.string().min(1)

/** Extends the section `database`. */
export const acceptedDatabaseSettings = {
  migrate_url: secret({ description: 'Connection URL of a role that may change the schema. No effect in this release.' }),
}

/** The agent exports no traces. */
const tracesOfAgent = {
  enabled: optional(z.boolean(), { description: 'Overrides telemetry.enabled for agents. No effect in this release.' }),
  otlp_endpoint: optional(url, { description: 'Overrides telemetry.otlp_endpoint for agents. No effect in this release.' }),
  service_name: optional(z.string().min(1), {
    description: 'Overrides telemetry.service_name for agents. No effect in this release.',
  }),
  sampling_rate: optional(z.number().min(0).max(1), {
    description: 'Overrides telemetry.sampling_rate for agents. No effect in this release.',
    unit: 'share of 1',
  }),
}

export const acceptedSections = {
  pak: {
    rng: setting(z.string(), 'osrng', { description: 'Random number generator of PAKs. Fixed: another value has no effect.' }),
    digest: setting(z.union([z.string(), z.number()]), 8, { description: 'Digest of PAKs. Fixed: another value has no effect.' }),
  },
  telemetry: { agent: tracesOfAgent },
}

const accepted = listSettings({ database: acceptedDatabaseSettings, ...acceptedSections })

/** Paths of settings that were given, differ from their default, and have no effect. */
export function listSettingsWithoutEffect({ sources, flat }: Pick<LoadedConfig<unknown>, 'sources' | 'flat'>): string[] {
  const isGiven = (path: string) => (sources.get(path) ?? 'default') !== 'default'
  const isDefault = (path: string, fallback: { value: unknown } | null) => isDeepStrictEqual(flat.get(path), fallback?.value)
  return accepted.filter(({ path, setting: { fallback } }) => isGiven(path) && !isDefault(path, fallback)).map(({ path }) => path)
}
