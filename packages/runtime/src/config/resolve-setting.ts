// Selects the source with the highest precedence for a setting and reads the value, from a file if the setting is a secret given by
// path.
import type { Problem } from './config-error.ts'
import { createSecretFile } from './create-secret-file.ts'
import { parseValue } from './parse-value.ts'
import { type FileRead, type OnRead, readSecretFile } from './read-config-file.ts'
import { environmentName, type SettingEntry } from './settings.ts'
import type { GivenValue, Source } from './sources.ts'

export type ResolvedSetting = { ok: true; entry: SettingEntry; source: Source; value: unknown } | { ok: false; problems: Problem[] }

/** `given` is sorted by precedence: only the last value is read. */
export async function resolveSetting(
  entry: SettingEntry,
  given: readonly GivenValue[],
  options: { createMissingSecrets: boolean; onRead?: OnRead | undefined },
): Promise<ResolvedSetting> {
  const winner = given.at(-1)
  if (!winner) return resolveDefault(entry)
  const rival = given.at(-2)
  if (rival && isEqualInRank(rival, winner)) {
    return toProblem(entry, winner.where, `is given twice (also as ${rival.where}${rival.isFileName ? ', by file' : ''}): keep one of them`)
  }
  const generate = options.createMissingSecrets ? entry.setting.generate : null
  const raw =
    winner.isFileName && winner.value !== ''
      ? await readSecretValue(String(winner.value), generate, options.onRead)
      : { ok: true as const, value: winner.value }
  if (!raw.ok) return toProblem(entry, winner.where, `the file ${String(winner.value)} ${raw.problem}`)
  const read = parseValue(entry.setting, raw.value)
  return read.ok ? { ok: true, entry, source: winner.source, value: read.value } : toProblem(entry, winner.where, read.problem)
}

async function readSecretValue(path: string, generate: (() => string) | null, onRead: OnRead | undefined): Promise<FileRead<string>> {
  const generatedSecret = generate === null ? null : await createSecretFile(path, generate)
  return generatedSecret?.ok === false ? generatedSecret : readSecretFile(path, onRead)
}

/** `DATABASE_URL` has lower precedence than BROKKR__DATABASE__URL; giving both is not an error. */
function isEqualInRank(a: GivenValue, b: GivenValue): boolean {
  return a.source === b.source && a.isAlias === b.isAlias
}

function resolveDefault(entry: SettingEntry): ResolvedSetting {
  const { fallback, secret } = entry.setting
  if (fallback) return { ok: true, entry, source: 'default', value: fallback.value }
  const name = environmentName(entry)
  const names = [name, ...(secret === 'no' ? [] : [`${name}_FILE`]), ...entry.setting.env]
  return toProblem(entry, '', `is required: give it in the file or as ${names.join(' or ')}`)
}

function toProblem(entry: SettingEntry, where: string, problem: string): ResolvedSetting {
  return { ok: false, problems: [{ path: entry.path, where, problem }] }
}
