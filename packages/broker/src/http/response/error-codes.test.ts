// The catalogue of errors is closed and alive: each code is used by the broker, or it is known which release will use it.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ErrorCode, errorStatus } from '@brokkr/contract/errors.ts'
import { expect, test } from 'vitest'

/** Codes that clients know and that this release has no way to. */
const later: Partial<Record<ErrorCode, string>> = {
  system_generator_not_a_tenant: 'only the system generator itself would get it, and that has no key',
  not_available: 'brokers of earlier releases send it, and agents understand it',
  upgrade_required: 'agents older than two minor releases do not exist yet',
}

const root = join(import.meta.dirname, '../..')
const sources = (readdirSync(root, { recursive: true }) as string[])
  .filter((file) => file.endsWith('.ts') && !/\.(test|fixture)\.ts$|test-parts/.test(file))
  .map((file) => readFileSync(join(root, file), 'utf8'))
const isUsed = (code: string): boolean => sources.some((text) => text.includes(`'${code}'`))
/** Put together from the kind of what is missing. */
const fromKinds: ReadonlySet<string> = new Set(['agent_event_not_found'])

test.each(Object.keys(errorStatus) as ErrorCode[])('%s is used, or waits for what will use it', (code) => {
  expect([code, isUsed(code) || fromKinds.has(code)]).toEqual([code, later[code] === undefined])
})

test('statuses are those of the wire', () => {
  for (const [code, status] of Object.entries(errorStatus))
    expect([code, [400, 401, 403, 404, 405, 409, 412, 413, 414, 415, 422, 426, 429, 500, 501, 503].includes(status)]).toEqual([code, true])
})
