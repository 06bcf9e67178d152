import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempDir } from '../test-parts/temp-dir.ts'
import { changePort, openPlaneDir, writeDerivedFiles } from './plane-dir.ts'

test('openPlaneDir returns the same ports, tokens and CA again', async () => {
  const dir = join(tempDir(), 'plane')
  const first = await openPlaneDir(dir)
  const again = await openPlaneDir(dir)
  expect([again.ports, again.token, again.plainToken, again.caPem]).toEqual([first.ports, first.token, first.plainToken, first.caPem])
  expect(new Set([first.token, first.plainToken, (await openPlaneDir(tempDir())).token]).size).toBe(3)
})

test('every file is readable by its owner only', async () => {
  const dir = join(tempDir(), 'plane')
  const plane = await openPlaneDir(dir)
  await writeDerivedFiles(plane, undefined)
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true }).map((entry) => join(entry.parentPath, entry.name))
  expect(entries.length).toBeGreaterThan(15)
  expect([dir, ...entries].filter((entry) => (statSync(entry).mode & 0o077) !== 0)).toEqual([])
})

test('a changed port is stored and written to the kubeconfig', async () => {
  const dir = tempDir()
  const plane = await openPlaneDir(dir)
  const before = plane.ports.apiserver
  await changePort(plane, 'apiserver')
  await writeDerivedFiles(plane, undefined)
  expect(plane.ports.apiserver).not.toBe(before)
  expect((await openPlaneDir(dir)).ports).toEqual(plane.ports)
  expect(await readFile(plane.path('kubeconfig'), 'utf8')).toContain(`server: https://127.0.0.1:${plane.ports.apiserver}\n`)
})

test('the configuration of KWOK contains the stages and the pod log', async () => {
  const dir = tempDir()
  const stages = join(dir, 'stages.yaml')
  writeFileSync(stages, 'kind: Stage\n')
  const plane = await openPlaneDir(join(dir, 'plane'))
  await writeDerivedFiles(plane, stages)
  const config = await readFile(plane.path('kwokConfig'), 'utf8')
  expect(config.split('---\n')).toEqual(['kind: Stage\n', expect.stringContaining(JSON.stringify(plane.path('podLog')))])
})

test('an existing pod log is not overwritten', async () => {
  const plane = await openPlaneDir(tempDir())
  writeFileSync(plane.path('podLog'), 'mine')
  await writeDerivedFiles(plane, undefined)
  expect(await readFile(plane.path('podLog'), 'utf8')).toBe('mine')
})

test('unreadable settings fail with an instruction', async () => {
  const dir = tempDir()
  writeFileSync(join(dir, 'plane.json'), '{"ports":')
  await expect(openPlaneDir(dir)).rejects.toThrow(
    `${dir}/plane.json cannot be read; delete its folder to start with an empty practice cluster`,
  )
})
