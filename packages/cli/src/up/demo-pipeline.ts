// The pipeline of the demo: created in the practice cluster with a Secret that holds the generator's PAK; then waits until a promotion
// awaits approval.
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@brokkr/client'
import type { StoredPromotion } from '@brokkr/contract/pipelines/endpoints.ts'
import { isTerminal, type Phase } from '@brokkr/contract/pipelines/promotion.ts'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import type { LocalAgent } from './agent-program.ts'
import type { LocalBroker } from './broker-program.ts'
import { buildPipeline, demoPipeline } from './demo-manifest.ts'
import type { LocalCluster } from './local-cluster.ts'
import type { StepResult } from './progress.ts'
import type { UpContext } from './up.ts'

const secretName = 'brokkr-demo'
const fieldManager = 'brokkr-up'
const waitLimitMs = 60_000
const { namespace, name } = demoPipeline

/** Server-side apply: equal content changes nothing. */
export async function ensureDemoPipeline({ signal }: UpContext, practice: LocalCluster, agent: LocalAgent): Promise<void> {
  const kube = openKube(await loadKubeconfig({ path: practice.kubeconfigPath, env: {} }), { userAgent: 'brokkr-up' })
  try {
    const data = { pak: Buffer.from(agent.generatorPak).toString('base64') }
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name: secretName }, type: 'Opaque', data }
    for (const object of [secret, buildPipeline(secretName)]) await kube.apply(object, { fieldManager, force: true, signal })
  } finally {
    await kube.close()
  }
}

/** Skipped, not failed, while something holds the promotion back: everything else works. */
export async function waitForPromotion({ signal }: UpContext, broker: LocalBroker): Promise<StepResult<void>> {
  const client = createClient({ baseUrl: broker.url, pak: () => broker.adminPak, userAgent: 'brokkr-up' })
  const endMs = Date.now() + waitLimitMs
  for (;;) {
    const [newest] = await client.listPromotions({ query: { namespace, pipeline: name, limit: 1 } })
    const result = newest === undefined ? null : describePromotion(newest)
    if (result !== null) return result
    if (Date.now() > endMs)
      return { detail: `${name} is not promoted yet; see: brokkr pipeline explain ${name}`, value: undefined, skipped: true }
    await sleep(500, undefined, { signal })
  }
}

/** Null while the promotion goes on by itself. One that has ended or is blocked waits for a user, so there is nothing to wait for here. */
export function describePromotion({ spec, status }: Pick<StoredPromotion, 'spec' | 'status'>): StepResult<void> | null {
  const revision = String(spec['revision'])
  const phase = (status['phase'] ?? 'Pending') as Phase
  if (phase === 'AwaitingApproval') return { detail: `${name}: ${revision} waits for approval into prod`, value: undefined }
  if (phase === 'Succeeded') return { detail: `${name}: ${revision} is in prod`, value: undefined }
  if (!isTerminal(phase) && phase !== 'Blocked') return null
  return { detail: `${name}: ${revision} is ${phase}; try again: brokkr pipeline retry ${name}/prod`, value: undefined, skipped: true }
}
