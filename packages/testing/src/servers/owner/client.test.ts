import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureKubeAssets } from '@brokkr/local/assets/kube-assets.ts'
import { expect, onTestFinished, test } from 'vitest'
import { callServersAt } from './client.ts'
import { spawnServersOwner } from './start-owner.ts'

test('without Kubernetes every caller gets the reasons and remedies unchanged', async () => {
  const env = { ...process.env, BROKKR_KUBE_ASSETS: await emptyFolder() }
  const reason = await ensureKubeAssets({ env }).catch((error: unknown) => error as Error)
  const owner = await spawnServersOwner(env)
  onTestFinished(() => owner.stop())
  const wish = { controllers: false, nodes: 0 }
  const askers = await Promise.allSettled([1, 2, 3].map(() => callServersAt(owner.socketPath, 'kube.plane', wish)))
  for (const asker of askers)
    expect(asker).toMatchObject({ status: 'rejected', reason: { name: 'KubeUnavailable', message: (reason as Error).message } })
  await expect(callServersAt(owner.socketPath, 'kube.plane', wish)).rejects.toThrow((reason as Error).message)
})

test('an error names an exited owner as the cause', async () => {
  const owner = await spawnServersOwner()
  await owner.stop()
  await expect(callServersAt(owner.socketPath, 'status', {})).rejects.toThrow('the process that owns the test servers is gone')
})

test('a script outside of the runner gets servers of its own and can still end by itself', async () => {
  const program = fileURLToPath(new URL('./fixtures/plain-script.ts', import.meta.url))
  const environment = Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST'))
  const script = spawn(process.execPath, [program], { env: Object.fromEntries(environment), stdio: ['ignore', 'pipe', 'inherit'] })
  const code = new Promise((resolve) => script.once('exit', resolve))
  expect((await script.stdout.setEncoding('utf8').toArray()).join('')).toMatch(/^owned by [1-9][0-9]*\n$/)
  expect(await code).toBe(0)
})

async function emptyFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'brokkr-no-kube-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}
