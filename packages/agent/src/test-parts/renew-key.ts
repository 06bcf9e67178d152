// A program that renews an agent's key on counted dependencies, to be killed at any await.
import { createClient } from '@brokkr/contract/client.ts'
import { openKube } from '@brokkr/kube/client.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { crashProgram } from '@brokkr/testing/crash-child.ts'
import { keyJudge } from '../key-judge.ts'
import { keyStore, renewKey } from '../own-key.ts'

export interface RenewInput {
  readonly brokerUrl: string
  readonly agentId: string
  readonly kubeconfigPath: string
  readonly namespace: string
}

if (import.meta.main)
  await crashProgram(async (input: RenewInput, underCrash) => {
    const kube = openKube(await loadKubeconfig({ path: input.kubeconfigPath, env: {} }))
    const counted = underCrash({ kube, client: createClient({ baseUrl: input.brokerUrl }) })
    const signal = AbortSignal.timeout(60_000)
    const store = keyStore({ kube: counted.kube }, input.namespace, signal)
    const judge = keyJudge(counted.client, () => input.agentId as never, signal)
    const kept = await store.read()
    await renewKey({ store, judge, now: Date.now }, kept!)
    await kube.close()
  })
