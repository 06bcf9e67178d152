// The watcher of the configuration file on a real file, with reloads that fail.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ApiError } from '@brokkr/contract/errors.ts'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { watchConfigFile } from './config-watcher.ts'

async function watchFile(onChange: (calls: number) => void): Promise<{ write: (text: string) => Promise<void>; calls: () => number }> {
  const folder = await mkdtemp(join(tmpdir(), 'brokkr-watcher-'))
  const file = join(folder, 'broker.toml')
  await writeFile(file, 'a = 1\n')
  let calls = 0
  const watcher = await watchConfigFile({ clock, log }, { file, debounceMs: 20, onChange: async () => onChange(++calls) })
  onTestFinished(async () => {
    watcher.close()
    await rm(folder, { recursive: true })
  })
  return { write: (text) => writeFile(file, text), calls: () => calls }
}

test('a reload that fails is repeated until it succeeds, without another change of the file', async () => {
  const { write, calls } = await watchFile((call) => {
    if (call < 3) throw new ApiError('database_unavailable', 'the database is away')
  })
  await write('a = 2\n')
  await waitFor('the third attempt', () => calls() === 3, { limitMs: 30_000 })
  expect(calls()).toBe(3)
})

test('an invalid file is not read again before it changes', async () => {
  const { write, calls } = await watchFile((call) => {
    if (call === 1) throw new ApiError('config_invalid', 'no')
  })
  await write('a = "x"\n')
  await waitFor('the first attempt', () => calls() === 1)
  await write('a = 3\n')
  await waitFor('the second attempt', () => calls() === 2)
  expect(calls()).toBe(2)
})
