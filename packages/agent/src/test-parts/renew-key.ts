// A program that renews an agent's key on counted dependencies, to be killed at any await.
import { createClient } from '@brokkr/contract/client.ts'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { crashProgram } from '@brokkr/testing/crash/crash-child.ts'
import { createPakStore, renewPak } from '../identity/own-pak.ts'
import { createPakProbe } from '../identity/pak-probe.ts'

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
    const store = createPakStore({ kube: counted.kube }, input.namespace, signal)
    const probe = createPakProbe(counted.client, () => input.agentId as never, signal)
    const kept = await store.read()
    await renewPak({ store, probe, now: Date.now }, kept!)
    await kube.close()
  })
