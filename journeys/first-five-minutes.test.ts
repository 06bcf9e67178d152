// needs: kubernetes, postgres
// What a newcomer sees: `brokkr up` on an empty folder brings the broker first, then the practice cluster, an agent and a demo
// that really runs; the command line shows it; a promotion is approved; a new revision goes through; down ends all of it.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheDir } from '@brokkr/local/assets/cache.ts'
import { isSameProcess } from '@brokkr/local/supervisor/process-table.ts'
import { readSupervisorState } from '@brokkr/local/supervisor/supervisor-state.ts'
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

test('the broker serves first, then the demo is applied, and the CLI shows its status', async () => {
  const up = await run(['up', '--foreground', '--plain', '--port', '0'])
  const line = (pattern: RegExp) =>
    waitFor(`output ${pattern}`, () => pattern.exec(up.text()), { limitMs: 120_000, onTimeout: () => up.text() })
  const url = (await line(/✔ broker +(http:\/\/\S+)/))[1]!
  const early = await fetch(`${url}/readyz`)
  expect([early.status, /✔ practice/.test(up.text())]).toEqual([200, false])
  await line(/✔ practice +kube-apiserver/)
  await line(/✔ agent +"practice" is connected/)
  await line(/✔ pipelines +hooks at/)
  await line(/✔ demo +stack hello is applied at sequence 1 · stack hello-prod is applied at sequence 1/)
  await line(/✔ nodes +3 nodes; pods are simulated/)
  await line(/✔ promotion +hello: 1\.1\.0 waits for approval into prod/)
  await line(/✔ flow +payments has processed \d+ rows/)
  await line(/Try/)

  const stacks = await output(['get', 'stacks'], up.folder)
  expect(stacks.text).toMatch(/hello +1 +1\/1 /)
  // Health is reported once the pods have had time to become ready.
  const status = await waitFor(
    'a healthy status',
    async () => {
      const one = await output(['status'], up.folder)
      return one.code === 0 ? one : undefined
    },
    { limitMs: 120_000 },
  )
  expect(status.text).toContain('2 of 2 healthy')

  const approved = await output(['approve', 'hello/prod', '--wait', '--timeout', '2m'], up.folder)
  expect(approved).toMatchObject({
    code: 0,
    text: expect.stringMatching(/hello\/prod 1\.1\.0 approved: 1 of 1\nhello run 1 succeeded in prod/),
  })
  // While its pods are replaced the stack is degraded.
  const isHealthy = async () => /hello-prod +2 +1\/1 +healthy/.test((await output(['get', 'stacks'], up.folder)).text)
  await waitFor('the health of the promoted stack', isHealthy, { limitMs: 120_000 })

  await writeFile(
    join(up.folder, 'shop.yaml'),
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop, namespace: default}\ndata: {open: "yes"}\n',
  )
  const apply = ['apply', '-f', 'shop.yaml', '--stack', 'shop', '-l', 'env:practice', '--wait', '--timeout', '60']
  const applied = await output(apply, up.folder)
  expect(applied.text).toMatch(/shop 0 → 1 +0 changed +1 new +0 gone\nshop 1 applied by practice/)
  expect(await output(apply, up.folder)).toMatchObject({ code: 0, text: expect.stringContaining('shop 1 unchanged') })
  const described = await output(['describe', 'stack', 'shop'], up.folder)
  expect(described.text).toMatch(/practice +applied +1 /)

  const isFlowing = async () =>
    /payments +DataFlow +Running +postgresql → postgresql +[\d.]+\/s +\d+ +0 /.test((await output(['flows', 'list'], up.folder)).text)
  await waitFor('the rate of the demo flow', isFlowing, { limitMs: 60_000 })

  const started = readSupervisorState(join(up.folder, '.brokkr'))
  expect(started.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['postgres', 'broker', 'etcd', 'kube-apiserver', 'agent-practice', 'pipelines', 'dataflow-operator']),
  )
  const down = await output(['down'], up.folder)
  expect(down.text).toContain('stopped')
  expect((await up.exited).code).toBe(0)
  expect(started.filter(({ pid, startTime }) => isSameProcess(pid, startTime)).map(({ name }) => name)).toEqual([])
}, 480_000)
