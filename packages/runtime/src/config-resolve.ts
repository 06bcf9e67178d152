// Decides which source a setting's value is taken from, and reads it: the strongest one wins, a secret may stand in a file.
import type { Problem } from './config-error.ts'
import { type FileRead, type OnRead, readSecretFile } from './config-file.ts'
import { makeSecretFile } from './config-make.ts'
import type { Given, Source } from './config-sources.ts'
import { type Entry, environmentName } from './config-table.ts'
import { readValue } from './config-values.ts'

export type Resolved = { ok: true; entry: Entry; source: Source; value: unknown } | { ok: false; problems: Problem[] }

/** `given` is in order of strength: the last one wins, and only that one is read. */
export async function resolveEntry(
  entry: Entry,
  given: readonly Given[],
  options: { makeMissing: boolean; onRead?: OnRead | undefined },
): Promise<Resolved> {
  const winner = given.at(-1)
  if (!winner) return fromDefault(entry)
  const rival = given.at(-2)
  if (rival && isEqualInRank(rival, winner)) {
    return wrong(entry, winner.where, `is given twice (also as ${rival.where}${rival.isFileName ? ', by file' : ''}): keep one of them`)
  }
  const make = options.makeMissing ? entry.setting.make : null
  const raw =
    winner.isFileName && winner.value !== ''
      ? await secretIn(String(winner.value), make, options.onRead)
      : { ok: true as const, value: winner.value }
  if (!raw.ok) return wrong(entry, winner.where, `the file ${String(winner.value)} ${raw.problem}`)
  const read = readValue(entry.setting, raw.value)
  return read.ok ? { ok: true, entry, source: winner.source, value: read.value } : wrong(entry, winner.where, read.problem)
}

async function secretIn(path: string, make: (() => string) | null, onRead: OnRead | undefined): Promise<FileRead<string>> {
  const made = make === null ? null : await makeSecretFile(path, make)
  return made?.ok === false ? made : readSecretFile(path, onRead)
}

/** `DATABASE_URL` beside BROKKR__DATABASE__URL is weaker, not twice the same. */
function isEqualInRank(a: Given, b: Given): boolean {
  return a.source === b.source && a.isAlias === b.isAlias
}

function fromDefault(entry: Entry): Resolved {
  const { fallback, secret } = entry.setting
  if (fallback) return { ok: true, entry, source: 'default', value: fallback.value }
  const name = environmentName(entry)
  const names = [name, ...(secret === 'no' ? [] : [`${name}_FILE`]), ...entry.setting.env]
  return wrong(entry, '', `is required: give it in the file or as ${names.join(' or ')}`)
}

function wrong(entry: Entry, where: string, problem: string): Resolved {
  return { ok: false, problems: [{ path: entry.path, where, problem }] }
}
