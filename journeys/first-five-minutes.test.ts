// needs: kubernetes, postgres
// What a newcomer sees: `brokkr up` on an empty folder brings the broker first, then the practice cluster, an agent and a demo
// that really runs; the command line shows it; a new revision goes through; down ends all of it.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheDir } from '@brokkr/local/cache.ts'
import { isSameProcess } from '@brokkr/local/process-table.ts'
import { readState } from '@brokkr/local/supervisor-state.ts'
import { type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'

const run = (args: string[], folder?: string): Promise<ProgramProcess> =>
  startProgram({
    name: args[0]!,
    main: 'packages/cli/src/main.ts',
    args,
    env: { BROKKR_CACHE: cacheDir() },
    ...(folder === undefined ? {} : { folder }),
  })
const output = async (args: string[], folder: string): Promise<{ code: number | null; text: string }> => {
  const program = await run(args, folder)
  const { code } = await program.exited
  return { code, text: program.text() }
}

test('the broker answers before the practice cluster is there, the demo is applied, and the command line tells the truth about it', async () => {
  const up = await run(['up', '--foreground', '--plain', '--port', '0'])
  const line = (pattern: RegExp) =>
    waitFor(`output ${pattern}`, () => pattern.exec(up.text()), { limitMs: 120_000, onTimeout: () => up.text() })
  const url = (await line(/✔ broker +(http:\/\/\S+)/))[1]!
  const early = await fetch(`${url}/readyz`)
  expect([early.status, /✔ practice/.test(up.text())]).toEqual([200, false])
  await line(/✔ practice +kube-apiserver/)
  await line(/✔ agent +"practice" follows/)
  await line(/✔ demo +stack hello is applied at sequence 1/)
  await line(/✔ nodes +3 nodes; pods are simulated/)
  await line(/Try/)

  const stacks = await output(['get', 'stacks'], up.folder)
  expect(stacks.text).toMatch(/hello +1 +1 +applied +1/)
  const status = await output(['status'], up.folder)
  expect([status.code, status.text]).toEqual([0, expect.stringContaining('1 of 1 applied')])

  await writeFile(
    join(up.folder, 'shop.yaml'),
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop, namespace: default}\ndata: {open: "yes"}\n',
  )
  const apply = ['apply', '-f', 'shop.yaml', '--stack', 'shop', '-l', 'env:practice', '--wait', '--timeout', '60']
  const applied = await output(apply, up.folder)
  expect(applied.text).toMatch(/shop 0 → 1\nshop 1 applied by practice/)
  expect(await output(apply, up.folder)).toMatchObject({ code: 0, text: expect.stringContaining('shop 1 unchanged') })
  const described = await output(['describe', 'stack', 'shop'], up.folder)
  expect(described.text).toMatch(/practice +applied +1 /)

  const started = readState(join(up.folder, '.brokkr'))
  expect(started.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['postgres', 'broker', 'etcd', 'kube-apiserver', 'agent-practice']),
  )
  const down = await output(['down'], up.folder)
  expect(down.text).toContain('stopped')
  expect((await up.exited).code).toBe(0)
  expect(started.filter(({ pid, startTime }) => isSameProcess(pid, startTime)).map(({ name }) => name)).toEqual([])
}, 240_000)
