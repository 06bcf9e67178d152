import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type CrashOutcome, crashAt, forEveryAwait } from './crash.ts'
import type { WriteNotes } from './fixtures/write-notes.ts'

const program = new URL('./fixtures/write-notes.ts', import.meta.url)

test('a careful program is killed at each of its awaits and never leaves half a note', async () => {
  const fresh = await freshFolders('careful')
  const outcomes: boolean[] = []
  const { points, kills } = await forEveryAwait(program, fresh, async (_, outcome, { folder }) => {
    outcomes.push(outcome.killed)
    expect(await noteIn(folder)).toBeOneOf([null, 'whole text of 7'])
    expect(outcome.result).toEqual(outcome.killed ? undefined : { way: 'careful' })
  })
  const handed = 'deps.withFolder.handed.write'
  expect(points).toEqual([
    'deps.withFolder before',
    `${handed} before`,
    `${handed} after`,
    'deps.withFolder after',
    'deps.files.rename before',
    'deps.files.rename after',
  ])
  expect(kills).toBe(points.length)
  expect(outcomes).toEqual([false, ...points.map(() => true), false])
})

test('a careless program is caught, and the error names the point', async () => {
  const run = forEveryAwait(program, await freshFolders('careless'), async (_, __, { folder }) => {
    const note = await noteIn(folder)
    if (note !== null && note !== 'whole text') throw new Error(`half a note: '${note}'`)
  })
  await expect(run).rejects.toThrow(/^The check failed after a kill at point 2 of 4 \(deps\.files\.writeFile after\): half a note: ''$/)
})

test('a kill happens at its point: the effect before it exists, the next does not', async () => {
  const fresh = await freshFolders('careful')
  const seen: Record<number, [boolean, boolean]> = {}
  await forEveryAwait(
    program,
    fresh,
    (n, _, { folder }) => void (seen[n] = [existsSync(join(folder, 'draft')), existsSync(join(folder, 'note'))]),
    { pick: [2, 3, 5, 6] },
  )
  expect(seen).toEqual({ 0: [false, true], 2: [false, false], 3: [true, false], 5: [true, false], 6: [false, true] })
})

test('a program that throws is no crash: its error is the outcome', async () => {
  const outcome = await crashAt(program, { input: { folder: tmpdir(), way: 'failing' } satisfies WriteNotes, killAt: 1 })
  expect([outcome.killed, outcome.points]).toEqual([false, []])
  expect(outcome.failed).toContain('no notes today')
})

test('a program that hangs is ended at the limit', async () => {
  const run = crashAt(program, { input: { folder: tmpdir(), way: 'hanging' } satisfies WriteNotes }, { limitMs: 500 })
  await expect(run).rejects.toThrow(/write-notes\.ts ended with SIGTERM before it could report/)
})

test('a program that never survives ends the test at its bound', async () => {
  const run = forEveryAwait(program, await freshFolders('careful'), () => undefined, { max: 2 })
  await expect(run).rejects.toThrow(/was killed at 2 points and never came to its end/)
})

test('a program that cannot start shows its standard error', async () => {
  const missing = new URL('../fixtures/no-such-program.ts', import.meta.url)
  const run: Promise<CrashOutcome> = crashAt(missing, { input: null })
  await expect(run).rejects.toThrow(/ended with code 1 before it could report; its standard error:\n[^]*no-such-program/)
})

async function freshFolders(way: WriteNotes['way']): Promise<(n: number) => Promise<WriteNotes>> {
  const root = await mkdtemp(join(tmpdir(), 'brokkr-crash-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  return async (n) => {
    const folder = join(root, String(n))
    await mkdir(folder)
    return { folder, way }
  }
}

async function noteIn(folder: string): Promise<string | null> {
  const file = join(folder, 'note')
  return existsSync(file) ? readFile(file, 'utf8') : null
}
